"""Brokers that come, go, and come back faster than anybody saw them go; and those that ask to be let go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from kraft_controller.core import deletion, moves, partitions, replicas
from kraft_controller.core.asks import Brokers, Damaged, ListBrokers, ReadBroker, Steps
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Broker
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase


@frozen
class Difference:
    new: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]
    """There all the time, as it seems, and yet registered anew."""


def difference(known: Mapping[BrokerId, Broker], registered: Mapping[BrokerId, BrokerEpoch]) -> Difference:
    return Difference(
        tuple(broker for broker in sorted(registered) if broker not in known),
        tuple(broker for broker in sorted(known) if broker not in registered),
        tuple(broker for broker in sorted(known) if broker in registered and registered[broker] > known[broker].epoch),
    )


def brokers_changed(desk: Desk, registered: Mapping[BrokerId, BrokerEpoch]) -> Steps[Difference]:
    """What to make of the registrations as they are now. A bounced broker has died and come back."""
    cluster = desk.cluster
    seen = difference(cluster.brokers, registered)
    arrived = yield from read_brokers(desk, (*seen.new, *seen.bounced), registered)
    gone = (*seen.dead, *seen.bounced)
    for broker in gone:
        del cluster.brokers[broker]
    if gone:
        cluster.returning.update(broker for broker in seen.bounced if broker in arrived)
        yield from on_failure(desk, gone)
        cluster.returning.clear()
    if arrived:
        cluster.brokers.update(arrived)
        yield from on_startup(desk, tuple(arrived))
    if gone or arrived:
        desk.note("brokers_changed", new=seen.new, dead=seen.dead, bounced=seen.bounced, live=tuple(cluster.brokers))
    return seen


def read_brokers(
    desk: Desk, brokers: Iterable[BrokerId], registered: Mapping[BrokerId, BrokerEpoch]
) -> Steps[dict[BrokerId, Broker]]:
    """Those that are still there and can be understood."""
    wanted = sorted(brokers)
    if not wanted:
        return {}
    answers = yield [ReadBroker(broker) for broker in wanted]
    found = {}
    for broker, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Broker):
            found[broker] = answer
        elif isinstance(answer, Damaged):
            desk.note_damaged(answer.why, answer.written)
    return found


def on_failure(desk: Desk, dead: Iterable[BrokerId]) -> Steps[None]:
    """They are not in the picture any more. Their partitions get other leaders, their replicas leave the ISRs."""
    cluster, batch = desk.cluster, desk.batch
    dead = tuple(dead)
    for broker in dead:
        cluster.leaving.discard(broker)
    held = {broker: _begun(desk, broker) for broker in dead}
    leaderless = [where for broker in dead for where in cluster.led_by(broker) if not cluster.is_deleting(where.topic)]
    partitions.move(desk, leaderless, PartitionPhase.OFFLINE)
    yield from partitions.bring_online(desk, cluster.waiting())
    deleted = [(where, broker) for broker in dead for where in held[broker] if cluster.is_deleting(where.topic)]
    others = [(where, broker) for broker in dead for where in held[broker] if not cluster.is_deleting(where.topic)]
    yield from replicas.take_offline(desk, others)
    deletion.replicas_died(desk, deleted)
    if not leaderless:
        batch.tell_metadata(cluster.brokers)
    for broker in dead:
        cluster.offline_dirs.pop(broker, None)


def on_startup(desk: Desk, arrived: Iterable[BrokerId]) -> Steps[None]:
    """They are in the picture. They are told what they hold, and who else is there; others are told of them."""
    cluster, batch = desk.cluster, desk.batch
    arrived = tuple(arrived)
    for broker in arrived:
        cluster.offline_dirs.pop(broker, None)
    batch.tell_metadata([broker for broker in cluster.brokers if broker not in arrived])
    batch.tell_all_metadata(arrived)
    batch.tell_all(arrived)
    held = [
        (where, broker) for broker in arrived for where in _begun(desk, broker) if not cluster.is_deleting(where.topic)
    ]
    replicas.move(desk, held, ReplicaPhase.ONLINE)
    yield from partitions.bring_online(desk, cluster.waiting())
    yield from moves.go_on(
        desk, *(where for where in cluster.moving if set(arrived) & set(cluster.assignment(where).target))
    )
    yield from deletion.go_on(desk)


def _begun(desk: Desk, broker: BrokerId) -> list[TopicPartition]:
    """What this broker holds. Not what a topic has grown by while its node was read for another reason: that begins
    when the news of it comes."""
    cluster = desk.cluster
    return [
        where
        for where in cluster.on(broker)
        if cluster.phase(where) is not PartitionPhase.NON_EXISTENT or cluster.is_deleting(where.topic)
    ]


def told_anew(desk: Desk, broker: BrokerId) -> Steps[None]:
    """It has not heard all that was said to it, so it is told everything, as if it had just come. It leads and follows
    as before: its session lasts, and it has lost nothing. What it was told to delete is asked of it again."""
    cluster = desk.cluster
    started = [
        (where, broker)
        for where in cluster.on(broker)
        if cluster.replica_phase(where, broker) is ReplicaPhase.DELETION_STARTED
    ]
    deletion.replicas_died(desk, started)
    desk.note("told_anew", broker=broker)
    yield from on_startup(desk, [broker])


def broker_modified(desk: Desk, broker: BrokerId) -> Steps[None]:
    """It says something else of itself: its endpoints, perhaps."""
    cluster = desk.cluster
    before = cluster.brokers.get(broker)
    if before is None:
        # It could not be read, and perhaps it has been mended.
        [registered] = yield [ListBrokers()]
        yield from brokers_changed(desk, registered.epochs if isinstance(registered, Brokers) else {})
        return
    found = yield from read_brokers(desk, [broker], {broker: before.epoch})
    after = found.get(broker)
    if after is not None and after.epoch == before.epoch and not after.is_told_like(before):
        cluster.brokers[broker] = after
        desk.batch.tell_metadata(cluster.brokers)


def controlled_shutdown(desk: Desk, broker: BrokerId) -> Steps[tuple[TopicPartition, ...]]:
    """What it leads goes to others, and what it follows it leaves. Returns what it leads still: not empty, ask again.

    What has one replica only stays where it is: there is nobody to take it.
    """
    cluster, batch = desk.cluster, desk.batch
    cluster.leaving.add(broker)
    shared = [
        where
        for where in cluster.on(broker)
        if len(cluster.brokers_of(where)) > 1 and not cluster.is_deleting(where.topic) and where in cluster.states
    ]
    led = [where for where in shared if cluster.states[where].leader == broker]
    yield from partitions.bring_online(desk, led, partitions.shutdown_election)
    followed = [where for where in shared if where not in led]
    for where in followed:
        batch.tell_stop(broker, where, delete=False)
    yield from replicas.take_offline(desk, [(where, broker) for where in followed])
    return tuple(where for where in led if cluster.states[where].leader == broker)


def log_dirs_failed(desk: Desk, brokers: Iterable[BrokerId]) -> None:
    """They are told all they hold once more: by their answers it is known which of it is on the failed disk."""
    cluster = desk.cluster
    for broker in brokers:
        for where in cluster.on(broker):
            if where in cluster.states:
                desk.batch.tell_role([broker], where)


def replicas_failed(desk: Desk, broker: BrokerId, failed: Iterable[TopicPartition]) -> Steps[None]:
    """A broker answered that it cannot use its logs of these, on a disk that failed, say."""
    cluster = desk.cluster
    gone = cluster.offline_dirs.setdefault(broker, set())
    news = [where for where in failed if where not in gone and broker in cluster.brokers_of(where)]
    gone.update(news)
    if not news:
        return
    desk.note("offline_replicas", broker=broker, partitions=tuple(map(str, news)))
    led = [
        where
        for where in news
        if where in cluster.states and cluster.states[where].leader == broker and not cluster.is_deleting(where.topic)
    ]
    partitions.move(desk, led, PartitionPhase.OFFLINE)
    yield from partitions.bring_online(desk, led)
    yield from replicas.take_offline(desk, [(where, broker) for where in news if not cluster.is_deleting(where.topic)])
    deletion.replicas_died(desk, [(where, broker) for where in news if cluster.is_deleting(where.topic)])
