"""The checks of three brokers that have settled, with all of them or without one that stays down.

A broker that is down has only these effects: reassignments to it are unfinished, and so are those of partitions that
only it holds. Such a partition has no leader. The broker is only in those ISRs in which it is the last one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from attrs import define, field

import zab
from kraft_controller.core.names import NO_LEADER, BrokerId, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes

IDS: Final = (1, 2, 3)
_REFUSED: Final = re.compile(
    r"^reassignment_refused partition=(\S+) why=brokers \[([\d, ]+)\] are not alive", re.MULTILINE
)
_REGISTERED: Final = '"event": "registered"'
Logs = Callable[[int], str]
"""Returns the whole log of a broker."""


@define
class Expected:
    """The state that requests should lead to, and the highest epochs that were read."""

    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    before: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    """The former replicas of the partitions that are reassigned in this round."""
    dead: set[int] = field(factory=set)
    """The brokers that were killed in this round."""
    logs: Mapping[int, int] = field(factory=dict)
    """The length of each broker's log at the begin of this round."""
    epochs: dict[tuple[TopicId | None, TopicPartition], int] = field(factory=dict)
    controller_epoch: int = 0
    made: int = 0
    refused: int = 0
    stayed: int = 0

    def begin(self, logs: Mapping[int, int]) -> None:
        self.before, self.dead, self.logs = {}, set(), logs

    def was_refused(self, where: TopicPartition, logs: Logs) -> bool:
        """Return whether a controller logged in this round that it refused the reassignment because a broker was down.

        That broker was killed, or has registered again since: on a busy machine its short session may expire.
        """
        logged = {ident: self.log_of_round(ident, logs) for ident in IDS}
        away = self.dead | {ident for ident, text in logged.items() if _REGISTERED in text}
        return any(
            named == str(where) and set(map(int, dead.split(","))) <= away
            for text in logged.values()
            for named, dead in _REFUSED.findall(text)
        )

    def log_of_round(self, ident: int, logs: Logs) -> str:
        """Return the log of this broker since the begin of this round."""
        return logs(ident)[self.logs.get(ident, 0) :]


class Unsettled(Exception):
    """The cluster has not settled yet."""


async def controller_of(session: zab.Session) -> int | None:
    try:
        return znodes.read_controller((await session.get(znodes.CONTROLLER))[0])
    except zab.NoNode:
        return None


async def check(session: zab.Session, wanted: Expected, logs: Logs, away: int | None) -> None:
    controller = await controller_of(session)
    live = {int(name) for name in await session.children(znodes.BROKERS)}
    if controller not in live or live != set(IDS) - {away}:
        raise Unsettled(f"the controller is {controller}, and brokers {sorted(live)} are registered")
    epoch = znodes.read_controller_epoch((await session.get(znodes.CONTROLLER_EPOCH))[0])
    if epoch < wanted.controller_epoch:
        raise AssertionError(f"the controller epoch decreased from {wanted.controller_epoch} to {epoch}")
    wanted.controller_epoch = epoch
    if await session.exists(znodes.PREFERRED) is not None:
        raise Unsettled(f"{znodes.PREFERRED} exists")
    for path in (znodes.DELETE_TOPICS, znodes.ISR_CHANGES):
        if left := await session.children(path):
            raise Unsettled(f"{path} has {left}")
    names = {where.topic for where in wanted.replicas}
    existing = set(await session.children(znodes.TOPICS))
    if existing != names:
        raise Unsettled(f"the topics are {sorted(existing)}, but {sorted(names)} were requested")
    stays: set[TopicPartition] = set()
    refused: set[TopicPartition] = set()
    for name in sorted(names):
        data, _ = await session.get(znodes.topic_path(name))
        topic = znodes.read_topic(name, data, Version(0))
        for number, held in topic.partitions.items():
            where = TopicPartition(name, number)
            data, stat = await session.get(znodes.state_path(where))
            state = znodes.read_partition_state(where, data, Version(stat.version))
            _check_state(where, held, state, away)
            if _stays_unfinished(wanted, logs, where, held, state, away):
                stays.add(where)
            elif held.replicas != wanted.replicas[where]:
                refused.add(where)
            _check_epoch(wanted, topic.id, where, state)
    await _check_request(session, stays)
    for where in refused:
        wanted.replicas[where] = wanted.before.pop(where)
    wanted.refused += len(refused)
    wanted.stayed += len(stays)


def _stays_unfinished(
    wanted: Expected, logs: Logs, where: TopicPartition, held: Assignment, state: PartitionState, away: int | None
) -> bool:
    """Return whether the reassignment of a partition has begun and cannot finish."""
    target = wanted.replicas[where]
    if held.moving:
        if held.target != target or away is None or (away not in target and state.leader != NO_LEADER):
            moving = f"{where} is being reassigned: {held}, {state}"
            raise Unsettled(f"{moving}; {target} were requested, and {_in_words(away)}")
        return True
    refused = held.replicas == wanted.before.get(where) and wanted.was_refused(where, logs)
    if held.replicas != target and not refused:
        raise Unsettled(f"{where} has the assignment {held}, but {target} were requested")
    return False


def _in_words(away: int | None) -> str:
    return "no broker is down" if away is None else f"broker {away} is down"


def _check_state(where: TopicPartition, held: Assignment, state: PartitionState, away: int | None) -> None:
    if state.leader == NO_LEADER and state.isr == (away,):
        return
    if state.leader == NO_LEADER or state.leader == away or state.leader not in state.isr:
        raise Unsettled(f"{where} has no live leader in its ISR: {state}")
    if set(state.isr) != set(held.replicas) - {away}:
        raise Unsettled(f"{where} has the replicas {held.replicas} and the state {state}, but {_in_words(away)}")


def _check_epoch(wanted: Expected, ident: TopicId | None, where: TopicPartition, state: PartitionState) -> None:
    before = wanted.epochs.get((ident, where), 0)
    if state.leader_epoch < before:
        raise AssertionError(f"the leader epoch of {where} decreased from {before} to {state.leader_epoch}")
    wanted.epochs[ident, where] = state.leader_epoch


async def _check_request(session: zab.Session, stays: set[TopicPartition]) -> None:
    """Check that the request names only reassignments that cannot finish."""
    try:
        left = znodes.read_reassignment((await session.get(znodes.REASSIGN))[0])
    except zab.NoNode:
        return
    if not left or set(left) - stays:
        raise Unsettled(f"{znodes.REASSIGN} requests {dict(left)}, but only {sorted(stays)} cannot finish")
