"""Moving replicas to other brokers, so that at every moment enough of them hold everything.

First those that are to come are added to those that are, and begin to fetch. When all of the target are in sync,
somebody of the target leads, and those that are to go are stopped and deleted. The topic's node says who comes and who
goes until it is over, so whoever is the controller then knows what is left to do, wherever the one before stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

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
from kraft_controller.core.cluster import Replica
from kraft_controller.core.desk import Desk
from kraft_controller.core.election import Election
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.partitions import Failed
from kraft_controller.core.state import Assignment, PartitionState, Topic
from kraft_controller.core.transitions import PartitionPhase, ReplicaPhase

NO_PARTITION: Final = "there is no such partition"
DELETING: Final = "its topic is being deleted"
PIECE_MAX: Final = 200
"""So many moves begin before what was decided is said, and others have their turn."""


def wrong_with(desk: Desk, where: TopicPartition, target: Sequence[BrokerId] | None) -> str | None:
    """Why this cannot be begun. `None` as the target cancels what is under way."""
    cluster = desk.cluster
    if where.topic not in cluster.topics or where.partition not in cluster.topics[where.topic].partitions:
        return NO_PARTITION
    if cluster.is_deleting(where.topic):
        return DELETING
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
    begun: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for where, target in wanted.items():
        why = wrong_with(desk, where, target)
        if why is not None:
            failed[where] = why
            continue
        held = desk.cluster.assignment(where)
        to = held.origin if target is None else tuple(target)
        if held.moving or to != held.replicas:
            begun[where] = to
    every = list(begun)
    for at in range(0, len(every), PIECE_MAX):
        yield from _begin(desk, {where: begun[where] for where in every[at : at + PIECE_MAX]}, failed)
        yield ()
    return failed


def _begin(desk: Desk, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], failed: Failed) -> Steps[None]:
    """All of them step by step together: a topic's node is written once for all of its partitions."""
    cluster = desk.cluster
    before = {where: cluster.assignment(where) for where in targets}
    for where, held in before.items():
        dropped = [broker for broker in held.adding if broker not in held.to(targets[where]).replicas]
        if dropped and not (yield from _drop(desk, where, dropped)):
            failed[where] = "of those who are in sync, only brokers are alive that would go"
    # The leader epoch first: from then on the leader can write no ISR on what it believes the assignment to be, until
    # it has been told of the new one, by this controller or by the next.
    bumped = yield from _bump(desk, {where: () for where in before if where not in failed})
    failed.update({where: "its state has changed or is gone" for where in before if where not in {*failed, *bumped}})
    written = yield from write_assignments(desk, {where: before[where].to(targets[where]) for where in bumped})
    failed.update({where: "its topic has changed or is gone" for where in bumped if where not in written})
    begun, over = [], []
    for where, after in written.items():
        desk.note("reassignment", partition=str(where), replicas=before[where].origin, target=targets[where])
        _announce(desk, where)
        if after.moving:
            begun.append(where)
        else:  # another order of the same, or everything taken back: nobody comes, and nobody goes any more
            over.append(where)
            desk.note("reassigned", partition=str(where), replicas=after.replicas)
    if over:
        yield [DropMoves(tuple(over), tuple(targets[where] for where in over))]
    yield from go_on(desk, *begun)


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
    yield from _stop_and_delete(desk, [(where, broker) for broker in brokers])
    return True


def _announce(desk: Desk, where: TopicPartition) -> None:
    """All hear who holds the partition now, and those who are to come begin."""
    cluster, batch = desk.cluster, desk.batch
    held = cluster.assignment(where)
    batch.tell_role([broker for broker in held.replicas if broker not in held.adding], where)
    batch.tell_role(held.adding, where, is_new=True)
    for broker in held.adding:
        cluster.replicas.setdefault((where, broker), ReplicaPhase.NEW)


def go_on(desk: Desk, *some: TopicPartition) -> Steps[None]:
    """Complete those of which all of the target are there and in sync; of the others hear when somebody else is."""
    cluster = desk.cluster
    moving = [
        where for where in dict.fromkeys(some) if where in cluster.moving and not cluster.is_deleting(where.topic)
    ]
    if not moving:
        return
    found = yield [ReadState(where, watch=True) for where in moving]
    arrived = []
    for where, read in zip(moving, found, strict=True):
        if not isinstance(read, PartitionState):
            desk.note("reassignment_waits", partition=str(where), why="its state cannot be read")
            continue
        cluster.learn_state(where, read)
        # Who was about to leave when his leader let him in, or whose disk has failed since, takes nothing over.
        if set(cluster.assignment(where).target) <= cluster.online(where).intersection(read.isr):
            arrived.append(where)
    yield from _complete(desk, arrived)


def _complete(desk: Desk, some: Sequence[TopicPartition]) -> Steps[None]:
    """All of them step by step together, as they began."""
    cluster, batch = desk.cluster, desk.batch
    before = {where: cluster.assignment(where) for where in some}
    coming = [(where, broker) for where, held in before.items() for broker in held.adding]
    late = [replica for replica in coming if cluster.replica_phase(*replica) is not ReplicaPhase.ONLINE]
    replicas.move(desk, late, ReplicaPhase.ONLINE)
    # What they are told from now on; not yet what is written, so they are on the move still.
    _imagine(desk, {where: held.arrived() for where, held in before.items()})
    cluster.moving.update(dict.fromkeys(before))

    def all_in_sync(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
        """A leader may have written another ISR since it was looked at."""
        held = before[where]
        return partitions.reassignment_election(desk, where, state) if set(held.target) <= set(state.isr) else None

    staying = {
        where: held.target
        for where, held in before.items()
        if (leader := cluster.states[where].leader) in held.target and cluster.is_live(leader)
    }
    led = dict.fromkeys((yield from _bump(desk, staying)))
    for where in led:
        batch.tell_role(before[where].target, where)
    others = [where for where in before if where not in staying]
    failed = yield from partitions.bring_online(desk, others, all_in_sync)
    led.update({where: None for where in others if where not in failed})
    _imagine(desk, {where: held for where, held in before.items() if where not in led})
    yield from _stop_and_delete(desk, [(where, broker) for where in led for broker in before[where].removing])
    arrived = yield from write_assignments(desk, {where: before[where].arrived() for where in led})
    for where in arrived:
        cluster.moving.pop(where, None)
        desk.note("reassigned", partition=str(where), replicas=before[where].target)
    if arrived:
        yield [DropMoves(tuple(arrived), tuple(before[where].target for where in arrived))]
        batch.tell_metadata(cluster.brokers, arrived)


def _imagine(desk: Desk, held: Mapping[TopicPartition, Assignment]) -> None:
    """In the picture only."""
    for name, some in _by_topic(held).items():
        topic = desk.cluster.topics[name]
        for where in some:
            topic = _with(topic, where, held[where])
        desk.cluster.learn_topic(topic)


def _by_topic(some: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for where in some:
        found.setdefault(where.topic, []).append(where)
    return found


def _stop_and_delete(desk: Desk, gone: Sequence[Replica]) -> Steps[None]:
    """They leave the ISR, then their disks. Whether they did is not waited for: nobody will ask them again."""
    for replica in gone:
        desk.cluster.replicas.setdefault(replica, ReplicaPhase.ONLINE)
    yield from replicas.take_offline(desk, gone)
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        replicas.move(desk, gone, phase)


def _bump(desk: Desk, some: Mapping[TopicPartition, Sequence[BrokerId]]) -> Steps[list[TopicPartition]]:
    """The same leader and ISR, with a leader epoch of its own. Not where one of those named has left the ISR
    meanwhile."""
    cluster = desk.cluster
    failed: Failed = {}
    bumped: list[TopicPartition] = []
    waiting = list(some)
    while waiting:
        states: dict[TopicPartition, PartitionState] = {}
        for where in waiting:
            state, in_sync = cluster.states.get(where), some[where]
            if state is None or state.controller_epoch > desk.epoch or not set(in_sync) <= set(state.isr):
                continue
            states[where] = state.next(desk.epoch)
        waiting = yield from partitions.write_states(desk, states, failed)
        again = {*waiting, *failed}
        bumped += [where for where in states if where not in again]
    for where, why in failed.items():
        desk.note("reassignment_waits", partition=str(where), why=why)
    return bumped


def write_assignments(desk: Desk, held: Mapping[TopicPartition, Assignment]) -> Steps[dict[TopicPartition, Assignment]]:
    """Into the topics' nodes, and into the picture when they stand: those that do."""
    written: dict[TopicPartition, Assignment] = {}
    for name, some in _by_topic(held).items():

        def change(topic: Topic, some: Sequence[TopicPartition] = some) -> Topic:
            for where in some:
                topic = _with(topic, where, held[where])
            return topic

        if (yield from write_topic(desk, name, change)):
            written.update({where: held[where] for where in some})
    return written


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
    if not isinstance(found, Moves):
        return
    if not found.wanted:
        yield [DropMoves(())]  # nobody would be told of what is asked for next
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
        yield ()  # why it is refused is said before the wish is gone, whoever dies in between
        yield [DropMoves(tuple(over), tuple(found.wanted[where] for where in over))]
    failed = yield from start(desk, wanted, by_node=True)
    for where, why in failed.items():
        desk.note("reassignment_refused", partition=str(where), why=why)
    if failed:
        yield ()
        yield [DropMoves(tuple(failed), tuple(wanted[where] for where in failed))]


def resume(desk: Desk) -> Steps[None]:
    """A new controller: all that the topics' nodes say is on the move."""
    cluster = desk.cluster
    going = []
    for where in list(cluster.moving):
        if cluster.phase(where) is not PartitionPhase.NON_EXISTENT and where in cluster.states:
            going.append(where)
    bumped = yield from _bump(desk, dict.fromkeys(going, ()))
    for where in bumped:
        _announce(desk, where)
    yield from go_on(desk, *bumped)
