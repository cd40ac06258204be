"""Scenarios of a controller and its brokers.

    @breaks(partitions.UPWARDS)
    def leader_epoch_decreases(s: Scenario, bad: bool) -> None:
        s.elected()
        s.topic(1, 2)
        s.state(1, [1, 2], 3)
        s.state(1, [1], 2 if bad else 4)

Each example exists twice: as a legal run, and with `bad` as a run with one violation of the invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from harness.checkers.controller import ALL, Case, judged
from harness.checkers.controller.facts import BecameController, CommandApplied, Fact, Registered
from harness.history import Change, Event, History, Invoke, Request
from kraft_controller.core.names import BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

ADMIN: Final = 90
"""The session of a client that is no broker."""


def session_of(broker: int) -> int:
    return 100 + broker


def held(
    *replicas: int, adding: Sequence[int] = (), removing: Sequence[int] = (), before: Sequence[int] = ()
) -> Assignment:
    return Assignment(*(tuple(map(BrokerId, each)) for each in (replicas, adding, removing, before)))


class Scenario:
    """A builder for a run. Zxids are counted from 1, versions as in the store."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.events: list[Event] = []
        self.facts: list[Fact] = []
        self._versions: dict[str, int] = {}

    # -- the store ---------------------------------------------------------------------------------

    def write(self, path: str, data: bytes | None, session: int) -> None:
        kind = "set" if path in self._versions else "create"
        self._versions[path] = self._versions.get(path, -1) + 1
        self.changes.append(Change(self._zxid(), session, kind, path, data, self._versions[path]))

    def delete(self, path: str, session: int) -> None:
        self._versions.pop(path, None)
        self.changes.append(Change(self._zxid(), session, "delete", path))

    def ends(self, session: int, *gone: str) -> None:
        for path in gone:
            self._versions.pop(path, None)
        self.changes.append(Change(self._zxid(), session, "close", gone=gone))

    def invoke(self, session: int, request: Request) -> None:
        self.events.append(Invoke(10 * len(self.events), session, session, len(self.events) + 1, 1, request))

    def _zxid(self) -> int:
        return len(self.changes) + 1

    # -- controllers and brokers -------------------------------------------------------------------

    def registers(self, broker: int, life: int = 1, session: int = 0) -> int:
        """Register a process of a broker, and return its broker epoch."""
        session = session or session_of(broker)
        self.write(f"{znodes.BROKERS}/{broker}", b"", session)
        made = len(self.changes)
        self.facts.append(Registered(made, broker, life, session, made))
        return made

    def epoch(self, epoch: int, broker: int) -> None:
        self.write(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(ControllerEpoch(epoch)), session_of(broker))

    def acts(self, broker: int, epoch: int) -> None:
        self.facts.append(BecameController(len(self.changes), broker, session_of(broker), epoch))

    def elected(self, broker: int = 1, epoch: int = 1) -> None:
        """Elect a controller, with a correct epoch."""
        if epoch == 1:
            self.epoch(0, broker)
        self.epoch(epoch, broker)
        self.acts(broker, epoch)

    def applies_command(
        self, broker: int, controller: int = 1, epoch: int = 1, *, life: int = 1, meant: int = -1
    ) -> None:
        self.facts.append(CommandApplied(len(self.changes), broker, life, meant, controller, epoch))

    # -- topics ------------------------------------------------------------------------------------

    def topic(self, *replicas: int, name: str = "t1", ident: str = "a", session: int = ADMIN) -> None:
        self.topic_of({0: held(*replicas)}, name=name, ident=ident, session=session)

    def topic_of(
        self, partitions: Mapping[int, Assignment], *, name: str = "t1", ident: str = "a", session: int = ADMIN
    ) -> None:
        self.write(znodes.topic_path(name), znodes.topic(TopicId(ident * 22), partitions), session)

    def state(self, leader: int, isr: Sequence[int], epoch: int, *, by: int = 1, session: int = 0, at: int = 0) -> None:
        """Write the state of partition `at` of topic t1, by broker 1 by default."""
        state = PartitionState(BrokerId(leader), tuple(map(BrokerId, isr)), LeaderEpoch(epoch), ControllerEpoch(by))
        self.write(state_path(at), znodes.partition_state(state), session or session_of(1))


def state_path(at: int = 0) -> str:
    return znodes.state_path(TopicPartition("t1", at))


Build = Callable[[Scenario, bool], None]


@frozen
class Example:
    name: str
    invariant: str
    build: Build

    def scenario(self, bad: bool) -> Scenario:
        s = Scenario()
        self.build(s, bad)
        return s


EXAMPLES: Final[dict[str, Example]] = {}


def breaks(invariant: str) -> Callable[[Build], Build]:
    def case(build: Build) -> Build:
        assert build.__name__ not in EXAMPLES
        EXAMPLES[build.__name__] = Example(build.__name__, invariant, build)
        return build

    return case


def result_of(history: History, facts: Sequence[Fact]) -> object:
    """Return the verdict, all violations, and the prepared writes."""
    try:
        case = Case.of(history, facts)
    except DamagedNode:
        return judged(history, facts)
    read = [(write, write.state, write.state_before, write.decides) for write in case.writes]
    return judged(history, facts), [broken for invariant in ALL for broken in invariant(case)], read
