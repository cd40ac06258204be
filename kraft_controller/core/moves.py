"""Moving replicas to other brokers, so that at every moment enough of them hold everything.

First those that are to come are added to those that are, and begin to fetch. When all of the target are in sync,
somebody of the target leads, and those that are to go are stopped and deleted. The topic's node says who comes and who
goes until it is over, so whoever is the controller then knows what is left to do, wherever the one before stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve

from kraft_controller.core import election, partitions, replicas
from kraft_controller.core.asks import (
    Changed,
    Damaged,
    Done,
    DropMoves,
    Moves,
    ReadMoves,
    ReadState,
    ReadTopic,
    Steps,
    WriteTopic,
)
from kraft_controller.core.desk import Desk
from kraft_controller.core.election import Election
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.partitions import Failed
from kraft_controller.core.state import Assignment, PartitionState, Topic
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase


def wrong_with(desk: Desk, where: TopicPartition, target: Sequence[BrokerId] | None) -> str | None:
    """Why this cannot be begun. `None` as the target cancels what is under way."""
    cluster = desk.cluster
    if where.topic not in cluster.topics or where.partition not in cluster.topics[where.topic].partitions:
        return "there is no such partition"
    if cluster.is_deleting(where.topic):
        return "its topic is being deleted"
    held = cluster.assignment(where)
    if target is None:
        return None if held.moving else "nothing is on the move that could be cancelled"
    if not target:
        return "the list of replicas is empty"
    if len(set(target)) != len(target) or any(broker < 0 for broker in target):
        return f"{list(target)} names a broker twice, or one that cannot be"
    dead = sorted(set(target) - set(held.origin) - set(cluster.live))
    if dead:
        return f"brokers {dead} are not alive, and would have to begin"
    return None


def start(
    desk: Desk, wanted: Mapping[TopicPartition, Sequence[BrokerId] | None], *, by_node: bool = False
) -> Steps[Failed]:
    """Begin all that can be begun; says why not of the others."""
    failed: Failed = {}
    if not by_node:
        # Else a controller that finds the older wish in the node would take it for the newer one.
        yield [DropMoves(tuple(wanted))]
    for where, target in wanted.items():
        why = wrong_with(desk, where, target)
        if why is not None:
            failed[where] = why
            continue
        held = desk.cluster.assignment(where)
        to = held.origin if target is None else tuple(target)
        if not held.moving and to == held.replicas:
            continue
        yield from _begin(desk, where, to, failed)
    return failed


def _begin(desk: Desk, where: TopicPartition, target: tuple[BrokerId, ...], failed: Failed) -> Steps[None]:
    cluster = desk.cluster
    before = cluster.assignment(where)
    after = before.to(target)
    dropped = [broker for broker in before.adding if broker not in after.replicas]
    if dropped and not (yield from _drop(desk, where, dropped)):
        failed[where] = "of those who are in sync, only brokers are alive that would go"
        return
    # The leader epoch first: from then on the leader can write no ISR on what it believes the assignment to be, until
    # it has been told of the new one, by this controller or by the next.
    if not (yield from _bump(desk, where)):
        failed[where] = "its state has changed or is gone"
        return
    if not (yield from write_assignment(desk, where, after)):
        failed[where] = "its topic has changed or is gone"
        return
    desk.note("reassignment", partition=str(where), replicas=before.origin, target=target)
    _announce(desk, where)
    if after.moving:
        yield from go_on(desk, where)
    else:  # another order of the same, or everything taken back: nobody comes, and nobody goes any more
        yield [DropMoves((where,), (target,))]
        desk.note("reassigned", partition=str(where), replicas=after.replicas)


def _drop(desk: Desk, where: TopicPartition, brokers: Sequence[BrokerId]) -> Steps[bool]:
    """They had begun for a target that is none any more. Not if with them went what nobody else has."""
    cluster = desk.cluster
    state = cluster.states.get(where)
    if state is not None and not set(state.isr) - set(brokers):
        return False
    if state is not None and state.leader in brokers:

        def among_the_others(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
            stay = tuple(broker for broker in cluster.brokers_of(where) if broker not in brokers)
            return election.offline(stay, state, cluster.online(where) & set(stay), desk.epoch)

        if (yield from partitions.bring_online(desk, [where], among_the_others)):
            return False
    yield from _stop_and_delete(desk, where, brokers)
    return True


def _announce(desk: Desk, where: TopicPartition) -> None:
    """All hear who holds the partition now, and those who are to come begin."""
    cluster, batch = desk.cluster, desk.batch
    held = cluster.assignment(where)
    batch.tell_role([broker for broker in held.replicas if broker not in held.adding], where)
    batch.tell_role(held.adding, where, is_new=True)
    for broker in held.adding:
        cluster.replicas.setdefault((where, broker), ReplicaPhase.NEW)


def go_on(desk: Desk, where: TopicPartition) -> Steps[None]:
    """Complete it if all of the target are in sync; if not, hear when somebody else is."""
    cluster = desk.cluster
    if where not in cluster.moving or cluster.is_deleting(where.topic):
        return
    [read] = yield [ReadState(where, watch=True)]
    if not isinstance(read, PartitionState):
        desk.note("reassignment_waits", partition=str(where), why="its state cannot be read")
        return
    cluster.learn_state(where, read)
    if set(cluster.assignment(where).target) <= set(read.isr):
        yield from _complete(desk, where)


def _complete(desk: Desk, where: TopicPartition) -> Steps[None]:
    cluster, batch = desk.cluster, desk.batch
    topic, held = cluster.topics[where.topic], cluster.assignment(where)
    coming = [broker for broker in held.adding if cluster.replica_phase(where, broker) is not ReplicaPhase.ONLINE]
    replicas.move(desk, [(where, broker) for broker in coming], ReplicaPhase.ONLINE)
    cluster.learn_topic(_with(topic, where, held.arrived()))  # what they are told from now on; not yet what is written
    cluster.moving[where] = None
    state = cluster.states[where]

    def all_in_sync(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
        """A leader may have written another ISR since it was looked at."""
        return partitions.reassignment_election(desk, where, state) if set(held.target) <= set(state.isr) else None

    if state.leader in held.target and cluster.is_live(state.leader):
        led = yield from _bump(desk, where, held.target)
        if led:
            batch.tell_role(held.target, where)
    else:
        led = not (yield from partitions.bring_online(desk, [where], all_in_sync))
    if not led:
        cluster.learn_topic(topic)
        return
    yield from _stop_and_delete(desk, where, held.removing)
    if not (yield from write_assignment(desk, where, held.arrived())):
        return
    cluster.moving.pop(where, None)
    yield [DropMoves((where,), (held.target,))]
    batch.tell_metadata(cluster.brokers, [where])
    desk.note("reassigned", partition=str(where), replicas=held.target)


def _stop_and_delete(desk: Desk, where: TopicPartition, brokers: Iterable[BrokerId]) -> Steps[None]:
    """They leave the ISR, then their disks. Whether they did is not waited for: nobody will ask them again."""
    gone = [(where, broker) for broker in brokers]
    for replica in gone:
        desk.cluster.replicas.setdefault(replica, ReplicaPhase.ONLINE)
    yield from replicas.take_offline(desk, gone)
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        replicas.move(desk, gone, phase)


def _bump(desk: Desk, where: TopicPartition, in_sync: Sequence[BrokerId] = ()) -> Steps[bool]:
    """The same leader and ISR, with a leader epoch of its own. Not if one of these has left the ISR meanwhile."""
    cluster = desk.cluster
    failed: Failed = {}
    waiting = [where]
    while waiting:
        state = cluster.states.get(where)
        if state is None or state.controller_epoch > desk.epoch or not set(in_sync) <= set(state.isr):
            return False
        waiting = yield from partitions.write_states(desk, {where: state.next(desk.epoch)}, failed)
    for why in failed.values():
        desk.note("reassignment_waits", partition=str(where), why=why)
    return not failed


def write_assignment(desk: Desk, where: TopicPartition, held: Assignment) -> Steps[bool]:
    """Into the topic's node, and into the picture when it stands."""
    return (yield from write_topic(desk, where.topic, lambda topic: _with(topic, where, held)))


def write_topic(desk: Desk, name: str, change: Callable[[Topic], Topic]) -> Steps[bool]:
    """Whatever else others have written into the node meanwhile stays."""
    cluster = desk.cluster
    while True:
        topic = cluster.topics.get(name)
        if topic is None:
            return False
        changed = change(topic)
        [answer] = yield [WriteTopic(changed)]
        if isinstance(answer, Done):
            cluster.learn_topic(evolve(changed, version=answer.version))
            return True
        if not isinstance(answer, Changed):
            return False
        [read] = yield [ReadTopic(name)]
        if not isinstance(read, Topic):
            if isinstance(read, Damaged):
                desk.note_damaged(read.why, read.written)
            return False
        cluster.learn_topic(read)


def _with(topic: Topic, where: TopicPartition, held: Assignment) -> Topic:
    return evolve(topic, partitions={**topic.partitions, where.partition: held})


def requested(desk: Desk) -> Steps[None]:
    """What people left in the node for it. Entries that make no sense are noted and taken out."""
    [found] = yield [ReadMoves()]
    if isinstance(found, Damaged):
        desk.note_damaged(found.why, found.written)
    if not isinstance(found, Moves) or not found.wanted:
        return
    wanted: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    over: list[TopicPartition] = []
    for where, target in found.wanted.items():
        held = desk.cluster.assignment(where)
        if held.moving and held.target == target:
            continue  # under way already
        why = wrong_with(desk, where, target)
        if why is not None:
            desk.note("reassignment_refused", partition=str(where), why=why)
        if why is not None or (not held.moving and held.replicas == target):
            over.append(where)
        else:
            wanted[where] = target
    if over:
        yield [DropMoves(tuple(over), tuple(found.wanted[where] for where in over))]
    failed = yield from start(desk, wanted, by_node=True)
    for where, why in failed.items():
        desk.note("reassignment_refused", partition=str(where), why=why)
    if failed:
        yield [DropMoves(tuple(failed), tuple(wanted[where] for where in failed))]


def resume(desk: Desk) -> Steps[None]:
    """A new controller: all that the topics' nodes say is on the move."""
    cluster = desk.cluster
    for where in list(cluster.moving):
        if cluster.phase(where) is PartitionPhase.NON_EXISTENT or where not in cluster.states:
            continue
        if (yield from _bump(desk, where)):
            _announce(desk, where)
            yield from go_on(desk, where)
