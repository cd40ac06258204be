"""What must be true of three brokers when they have settled: of all of them, or without one that stays away.

Without one, only this may be missing: a reassignment to it stays unfinished, and so does one of a partition that only
it holds; such a partition has no leader; and it is in no ISR but in those where it is the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from attrs import define, field

import zab
from kraft_controller.core.names import NOBODY, BrokerId, TopicId, TopicPartition, Version
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes

IDS: Final = (1, 2, 3)
_REFUSED: Final = re.compile(
    r"^reassignment_refused partition=(\S+) why=brokers \[([\d, ]+)\] are not alive", re.MULTILINE
)
_REGISTERED: Final = '"event": "registered"'
Logs = Callable[[int], str]
"""Returns all that a broker has logged."""


@define
class Expected:
    """What was requested, and the epochs that were seen."""

    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    before: dict[TopicPartition, tuple[BrokerId, ...]] = field(factory=dict)
    """The former replicas of the partitions that are reassigned in this round."""
    dead: set[int] = field(factory=set)
    """Brokers that were killed in this round."""
    logs: Mapping[int, int] = field(factory=dict)
    """The length of each log when this round began."""
    epochs: dict[tuple[TopicId | None, TopicPartition], int] = field(factory=dict)
    controller_epoch: int = 0
    made: int = 0
    refused: int = 0
    stayed: int = 0

    def begin(self, logs: Mapping[int, int]) -> None:
        self.before, self.dead, self.logs = {}, set(), logs

    def was_refused(self, where: TopicPartition, logs: Logs) -> bool:
        """Return whether a controller reported in this round that it refused the reassignment, as a broker was away.

        That broker was killed, or has registered anew since: on a busy machine it may lose its short session.
        """
        said = {ident: self.log_of_round(ident, logs) for ident in IDS}
        away = self.dead | {ident for ident, text in said.items() if _REGISTERED in text}
        return any(
            named == str(where) and set(map(int, dead.split(","))) <= away
            for text in said.values()
            for named, dead in _REFUSED.findall(text)
        )

    def log_of_round(self, ident: int, logs: Logs) -> str:
        """Return what this broker has logged in this round."""
        return logs(ident)[self.logs.get(ident, 0) :]


class Unsettled(Exception):
    """It is not as it should be yet."""


async def controller_of(session: zab.Session) -> int | None:
    try:
        return znodes.read_controller((await session.get(znodes.CONTROLLER))[0])
    except zab.NoNode:
        return None


async def check(session: zab.Session, wanted: Expected, logs: Logs, away: int | None) -> None:
    controller = await controller_of(session)
    live = {int(name) for name in await session.children(znodes.BROKERS)}
    if controller not in live or live != set(IDS) - {away}:
        raise Unsettled(f"controller {controller}, and {sorted(live)} are registered")
    epoch = znodes.read_controller_epoch((await session.get(znodes.CONTROLLER_EPOCH))[0])
    if epoch < wanted.controller_epoch:
        raise AssertionError(f"the controller's epoch was {wanted.controller_epoch}, and is {epoch}")
    wanted.controller_epoch = epoch
    if await session.exists(znodes.PREFERRED) is not None:
        raise Unsettled(f"{znodes.PREFERRED} is there")
    for path in (znodes.DELETE_TOPICS, znodes.ISR_CHANGES):
        if left := await session.children(path):
            raise Unsettled(f"{path} has {left}")
    names = {where.topic for where in wanted.replicas}
    there = set(await session.children(znodes.TOPICS))
    if there != names:
        raise Unsettled(f"topics {sorted(there)}, and {sorted(names)} were asked for")
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
    """Return whether its reassignment is under way and cannot finish."""
    target = wanted.replicas[where]
    if held.moving:
        if held.target != target or away is None or (away not in target and state.leader != NOBODY):
            raise Unsettled(f"{where} is on the move: {held}, {target} were asked for, {away} is away: {state}")
        return True
    refused = held.replicas == wanted.before.get(where) and wanted.was_refused(where, logs)
    if held.replicas != target and not refused:
        raise Unsettled(f"{where} is held by {held}, and {target} were asked for")
    return False


def _check_state(where: TopicPartition, held: Assignment, state: PartitionState, away: int | None) -> None:
    if state.leader == NOBODY and state.isr == (away,):
        return
    if state.leader == NOBODY or state.leader == away or state.leader not in state.isr:
        raise Unsettled(f"{where}: {state}")
    if set(state.isr) != set(held.replicas) - {away}:
        raise Unsettled(f"{where}: {state}, and {held.replicas} hold it; {away} is away")


def _check_epoch(wanted: Expected, ident: TopicId | None, where: TopicPartition, state: PartitionState) -> None:
    before = wanted.epochs.get((ident, where), 0)
    if state.leader_epoch < before:
        raise AssertionError(f"{where}: its leader epoch was {before}, and is {state.leader_epoch}")
    wanted.epochs[ident, where] = state.leader_epoch


async def _check_request(session: zab.Session, stays: set[TopicPartition]) -> None:
    """Only reassignments that cannot finish may be left in the request."""
    try:
        left = znodes.read_reassignment((await session.get(znodes.REASSIGN))[0])
    except zab.NoNode:
        return
    if not left or set(left) - stays:
        raise Unsettled(f"{znodes.REASSIGN} asks for {dict(left)}, and {sorted(stays)} have to stay")
