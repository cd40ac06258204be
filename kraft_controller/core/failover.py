"""What a broker does first when it has become the controller. Whatever the one before left unfinished is finished.

Every list and every node is watched from the reading on, so nothing falls between what was read and what is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from kraft_controller.core import deletion, members, moves, partitions, rebalance, replicas, topics
from kraft_controller.core.asks import (
    Brokers,
    ConfigChanges,
    ControllerMoved,
    ListBrokers,
    ListDeletions,
    ListTopics,
    Names,
    RaiseEpoch,
    Steps,
    TakeConfigChanges,
    TakeIsrChanges,
    TakeLogDirEvents,
)
from kraft_controller.core.cluster import Replica
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerId, TopicId
from kraft_controller.core.partitions import Failed
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase


def take_over(desk: Desk, new_id: Callable[[], TopicId]) -> Steps[None]:
    cluster, batch = desk.cluster, desk.batch
    # What brokers noted before is superseded by what is read now.
    registered, listed, deletions, configs, _, _ = yield [
        ListBrokers(), ListTopics(), ListDeletions(), TakeConfigChanges(None), TakeIsrChanges(), TakeLogDirEvents(),
    ]  # fmt: skip
    if isinstance(configs, ConfigChanges):
        desk.config_changes_seen, desk.config_changes_of = configs.seen, configs.of
    yield from topics.read_broker_defaults(desk)
    epochs = registered.epochs if isinstance(registered, Brokers) else {}
    cluster.brokers.update((yield from members.read_brokers(desk, epochs, epochs)))
    yield from topics.read_topics(desk, sorted(listed.names) if isinstance(listed, Names) else [], new_id)
    yield from _read_all_states(desk)
    yield from _look_at_epoch(desk)
    yield from deletion.ask_for(desk, deletions.names if isinstance(deletions, Names) else ())
    restarted = {broker: cluster.brokers.pop(broker) for broker in _restarted(desk)}
    cluster.returning.update(restarted)
    # Who is told to follow must know where the others are before he can fetch.
    batch.tell_all_metadata(cluster.brokers)
    batch.tell_all(cluster.brokers)
    gone = _start_replicas(desk)
    yield from _start_partitions(desk)
    # Behind the elections: who got another leader has an ISR of the living already, and need not be written twice.
    yield from replicas.take_offline(desk, _in_order_of_leaving(gone, restarted))
    if restarted:  # before anything that people asked for: they are there, and may be what it is about
        desk.note("restarted", brokers=tuple(restarted))
        cluster.brokers.update(restarted)
        cluster.returning.clear()
        yield from members.on_startup(desk, tuple(restarted))
        _unsay_no_leader(desk)
    yield ()  # nobody waits for his leader until what people asked for is taken up
    yield from moves.resume(desk)
    yield from moves.requested(desk)
    yield from deletion.go_on(desk)
    yield from rebalance.requested(desk)
    desk.note("took_over", brokers=len(cluster.brokers), topics=len(cluster.topics), partitions=len(cluster.states))


def _look_at_epoch(desk: Desk) -> Steps[None]:
    """Somebody has removed the node that counts controllers, or set it back: brokers that have heard of later ones obey
    none of this epoch. So it is set to the newest that is found, and whoever is elected then counts on from there."""
    newest = max((state.controller_epoch for state in desk.cluster.states.values()), default=desk.epoch)
    if newest > desk.epoch:
        desk.note("epoch_set_back", epoch=desk.epoch, found=newest, why="it is set to what was found, and counted on")
        yield ()
        yield [RaiseEpoch(newest)]
        raise ControllerMoved(f"epoch {desk.epoch} comes behind {newest}")


def _restarted(desk: Desk) -> list[BrokerId]:
    """Who has registered since it was decided last on something in which it is in sync. No controller has seen it go,
    and it may have lost what it held: it has died and come back, as one that bounces before the eyes of a controller.
    Else it would lead on in the same leader epoch, and write other records under the offsets of those that it lost.
    """
    cluster = desk.cluster
    return [
        broker
        for broker, known in cluster.brokers.items()
        if any(
            broker in state.isr and 0 < state.written < known.epoch
            for where in cluster.on(broker)
            if not cluster.is_deleting(where.topic) and (state := cluster.states.get(where)) is not None
        )
    ]


def _in_order_of_leaving(gone: Sequence[Replica], restarted: Container[BrokerId]) -> list[Replica]:
    """First those who are not there; then those who are there again, who is preferred last of all. So where nobody else
    was in sync, the one who stays on record is one who can lead. Else it might be one who never comes back, while
    others stand there with all that was acknowledged."""
    return [
        *(replica for replica in gone if replica[1] not in restarted),
        *(replica for replica in reversed(gone) if replica[1] in restarted),
    ]


def _unsay_no_leader(desk: Desk) -> None:
    """Of what only the restarted could lead: nobody has to get up for that, they are back already."""
    led = {str(where) for where in desk.cluster.in_phase(PartitionPhase.ONLINE)}
    desk.notes[:] = [
        note for note in desk.notes if note.event != "no_leader" or dict(note.fields)["partition"] not in led
    ]


def _read_all_states(desk: Desk) -> Steps[None]:
    """A partition without a state node is new: whoever wrote its topic left the rest to the controller."""
    everything = list(desk.cluster.all_partitions())
    failed: Failed = {}
    yield from partitions.read_states(desk, everything, failed)


def _start_replicas(desk: Desk) -> list[Replica]:
    """Returns those whose brokers are not there."""
    cluster = desk.cluster
    there: list[Replica] = []
    gone: list[Replica] = []
    for where in cluster.all_partitions():
        for broker in cluster.brokers_of(where):
            alive = broker in cluster.brokers
            cluster.replicas[where, broker] = ReplicaPhase.ONLINE if alive else ReplicaPhase.DELETION_INELIGIBLE
            if not cluster.is_deleting(where.topic) and where in cluster.states:
                (there if alive else gone).append((where, broker))
    replicas.move(desk, there, ReplicaPhase.ONLINE)
    return gone


def _start_partitions(desk: Desk) -> Steps[None]:
    cluster = desk.cluster
    for where in cluster.all_partitions():
        state = cluster.states.get(where)
        if state is None:
            cluster.phases[where] = PartitionPhase.NEW
        else:
            led = state.leader in cluster.brokers
            cluster.phases[where] = PartitionPhase.ONLINE if led else PartitionPhase.OFFLINE
    yield from partitions.bring_online(desk, cluster.waiting())
