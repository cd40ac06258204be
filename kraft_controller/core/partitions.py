"""The partition state machine: bringing partitions online, offline, and out of the world.

A decision is taken on the picture, written under the version that the picture holds, and told when the write stands.
Where the node has changed meanwhile (a leader writes its ISR there, too) it is read, and decided on again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from attrs import evolve

from kraft_controller.core import election
from kraft_controller.core.asks import Answer, Changed, Damaged, Done, MakeState, ReadState, Steps, WriteState
from kraft_controller.core.desk import Desk
from kraft_controller.core.election import Election
from kraft_controller.core.names import LeaderEpoch, TopicPartition
from kraft_controller.core.state import PartitionState
from kraft_controller.core.transitions import PARTITION_FROM, PartitionPhase, may

Failed: TypeAlias = dict[TopicPartition, str]
"""Why it did not come to be."""
Elect: TypeAlias = Callable[[Desk, TopicPartition, PartitionState], Election | None]


def offline_election(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    cluster = desk.cluster
    # Nothing is given up for lost while somebody in sync is about to be there again.
    unclean = where.topic in cluster.unclean and cluster.returning.isdisjoint(state.isr)
    return election.offline(cluster.brokers_of(where), state, cluster.online(where), desk.epoch, unclean=unclean)


def unclean_election(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    """Asked for by a person, for this partition."""
    cluster = desk.cluster
    return election.offline(cluster.brokers_of(where), state, cluster.online(where), desk.epoch, unclean=True)


def reassignment_election(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    cluster = desk.cluster
    return election.reassigned(cluster.assignment(where).target, state, cluster.online(where), desk.epoch)


def preferred_election(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    cluster = desk.cluster
    return election.preferred(cluster.brokers_of(where), state, cluster.online(where), desk.epoch)


def shutdown_election(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    cluster = desk.cluster
    online = cluster.online(where, leaving_too=True)
    live = frozenset(broker for broker in online if broker not in cluster.leaving)
    leaving = frozenset(broker for broker in online if broker in cluster.leaving)
    return election.controlled_shutdown(cluster.brokers_of(where), state, live, leaving, desk.epoch)


def move(desk: Desk, partitions: Iterable[TopicPartition], to: PartitionPhase) -> list[TopicPartition]:
    """Those that may go there, gone there. What may not is noted and left alone: it is a mistake of ours."""
    moved = []
    for where in partitions:
        before = desk.cluster.phase(where)
        if not may(PARTITION_FROM, before, to):
            desk.note("illegal_transition", partition=str(where), before=before.value, after=to.value)
            continue
        if to is PartitionPhase.NON_EXISTENT:
            desk.cluster.phases.pop(where, None)
        else:
            desk.cluster.phases[where] = to
        moved.append(where)
    return moved


def bring_online(desk: Desk, partitions: Iterable[TopicPartition], elect: Elect = offline_election) -> Steps[Failed]:
    """Give each a leader: its first one, or another."""
    cluster = desk.cluster
    failed: Failed = {}
    new, others = [], []
    for where in partitions:
        before = cluster.phase(where)
        if not may(PARTITION_FROM, before, PartitionPhase.ONLINE):
            desk.note(
                "illegal_transition", partition=str(where), before=before.value, after=PartitionPhase.ONLINE.value
            )
        elif before is PartitionPhase.NEW:
            new.append(where)
        else:
            others.append(where)
    yield from _begin(desk, new, failed)
    yield from _elect(desk, others, elect, failed)
    for where, why in failed.items():
        desk.note("no_leader", partition=str(where), why=why)
    return failed


def _begin(desk: Desk, new: Sequence[TopicPartition], failed: Failed) -> Steps[None]:
    """The first leader: the first replica that is there. All that are there are in sync: nothing has been written."""
    cluster = desk.cluster
    asks: list[MakeState] = []
    for where in new:
        online = cluster.online(where)
        there = tuple(broker for broker in cluster.brokers_of(where) if broker in online)
        if not there:
            failed[where] = f"none of its brokers {list(cluster.brokers_of(where))} is alive"
            continue
        state = PartitionState(there[0], there, LeaderEpoch(0), desk.epoch)
        asks.append(MakeState(where, state))
    if not asks:
        return
    answers = yield asks
    begun: list[TopicPartition] = []
    for ask, answer in zip(asks, answers, strict=True):
        if isinstance(answer, Changed):
            begun.append(ask.where)
            continue
        if not isinstance(answer, Done):
            failed[ask.where] = "its topic is gone"
            continue
        cluster.learn_state(ask.where, evolve(ask.state, version=answer.version))
        cluster.phases[ask.where] = PartitionPhase.ONLINE
        desk.batch.tell_role(ask.state.isr, ask.where, is_new=True)
    yield from _resume(desk, (yield from read_states(desk, begun, failed)), failed)


def _resume(desk: Desk, partitions: Sequence[TopicPartition], failed: Failed) -> Steps[None]:
    """They have been led before, though the picture knew nothing of it: nobody could read it, or it was just made.

    The leader leads on, in another leader epoch: to brokers that have let go of it meanwhile the old one is no news.
    """
    for where in partitions:
        desk.cluster.phases[where] = PartitionPhase.OFFLINE
    yield from _elect(desk, partitions, _as_it_was, failed)


def _as_it_was(desk: Desk, where: TopicPartition, state: PartitionState) -> Election | None:
    online = desk.cluster.online(where)
    if state.leader not in online:
        return offline_election(desk, where, state)
    isr = tuple(member for member in state.isr if member in online)
    there = tuple(broker for broker in desk.cluster.brokers_of(where) if broker in online)
    return Election(state.next(desk.epoch, isr=isr), there)


def _elect(desk: Desk, partitions: Sequence[TopicPartition], elect: Elect, failed: Failed) -> Steps[None]:
    cluster = desk.cluster
    waiting = list(partitions)
    while waiting:
        chosen: dict[TopicPartition, Election] = {}
        for where in waiting:
            state = cluster.states.get(where)
            if state is None:
                failed[where] = "nothing is known of its state"
                continue
            if state.controller_epoch > desk.epoch:
                failed[where] = f"the controller of epoch {state.controller_epoch} has decided on it since"
                continue
            found = elect(desk, where, state)
            if found is None:
                failed[where] = f"no replica in sync can lead: {list(state.isr)}"
                continue
            chosen[where] = found
        waiting = yield from write_states(desk, {where: one.state for where, one in chosen.items()}, failed)
        for where, one in chosen.items():
            if where in waiting or where in failed:
                continue
            cluster.phases[where] = PartitionPhase.ONLINE
            desk.batch.tell_role(one.tell, where)
            desk.elections += 1
            if one.unclean:
                desk.unclean_elections += 1
                desk.note("unclean_election", partition=str(where), leader=one.state.leader)


def write_states(
    desk: Desk, states: dict[TopicPartition, PartitionState], failed: Failed
) -> Steps[list[TopicPartition]]:
    """Those whose nodes had changed; the picture holds them as they are now, to decide again."""
    if not states:
        return []
    cluster = desk.cluster
    answers = yield [WriteState(where, state) for where, state in states.items()]
    changed: list[TopicPartition] = []
    for (where, state), answer in zip(states.items(), answers, strict=True):
        if isinstance(answer, Done):
            cluster.learn_state(where, evolve(state, version=answer.version))
        elif isinstance(answer, Changed):
            changed.append(where)
        else:
            failed[where] = "its state node is gone"
    return (yield from read_states(desk, changed, failed))


def read_states(desk: Desk, partitions: Sequence[TopicPartition], failed: Failed) -> Steps[list[TopicPartition]]:
    """Those that could be read."""
    if not partitions:
        return []
    answers = yield [ReadState(where) for where in partitions]
    read: list[TopicPartition] = []
    damaged: dict[TopicPartition, Damaged] = {}

    def heard(where: TopicPartition, answer: Answer) -> None:
        if isinstance(answer, PartitionState):
            desk.cluster.learn_state(where, answer)
            read.append(where)
        elif isinstance(answer, Damaged):
            failed[where] = answer.why
            damaged[where] = answer
            desk.cluster.unreadable.add(where)
        else:
            failed[where] = "it has no state node"

    for where, answer in zip(partitions, answers, strict=True):
        heard(where, answer)
    if damaged:
        # Somebody will mend it by hand, and that must be heard.
        watched, damaged = damaged, {}
        answers = yield [ReadState(where, watch=True) for where in watched]
        for where, answer in zip(watched, answers, strict=True):
            failed.pop(where)
            heard(where, answer)
        for answer in damaged.values():
            desk.note_damaged(answer.why, answer.written)
    return read
