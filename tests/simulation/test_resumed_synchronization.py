"""A snapshot whose link breaks in the middle is not sent a second time from its beginning."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults import LoseDisk, Script, Write
from harness.worlds.stack.members import World
from harness.worlds.stack.node import ReportingNode
from zab.core.ensemble import Ensemble
from zab.core.leader.leader import Leader
from zab.core.learner.learner import Learner
from zab.core.learner.learner_discovery import LearnerDiscovery
from zab.core.log_state import LogState
from zab.core.messages import SnapBegin, SnapChunk, SnapHeld, SnapResume
from zab.core.partial_snapshot import PartialSnapshot
from zab.core.ready import Recovered, Settings
from zab.core.zxid import Millis, ServerId

LOST_MS = 1_500
LEADER, LATE = 3, 1
"""The leader, and the server that comes back with an empty disk."""
STATE = tuple(Write(at, 5, 2_000) for at in range(300, 1_400, 50))
LATER = tuple(Write(at, 1, 100) for at in range(2_000, 9_000, 500))
RATE = 80_000
"""Bytes a second: the state of 230 kB takes 3 s."""


class Counting(World):
    """Notes what the late server hears of snapshots, and when it serves."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.begun: list[str] = []
        self.chunk_bytes = 0
        self.served = False
        self.push(LOST_MS * 1_000, lambda *_: self.network.limit(LEADER, LATE, RATE), None, None)
        self.push(LOST_MS * 1_000 + 250_000, self._look, None, None)

    def _look(self, _: object, __: object) -> None:
        server = self.servers[LATE]
        self.served = server.up and server.node.serving
        if not self.served:
            self.push(self.now + 10_000, self._look, None, None)

    def record(self, sid: int, verb: str, other: int, what: Any) -> None:
        if sid == LATE and verb == "hears":
            if isinstance(what, SnapBegin | SnapResume):
                self.begun.append(type(what).__name__)
            elif isinstance(what, SnapChunk):
                self.chunk_bytes += len(what.data)
        super().record(sid, verb, other, what)

    def cut_at(self, ms: int) -> None:
        self.push(ms * 1_000, lambda *_: self.network.cut(self.servers[LATE]), None, None)


def counting(*cuts: int) -> Counting:
    world = Counting(Script(7, length_ms=12_000, ops=STATE + LATER, faults=(LoseDisk(LOST_MS, 200, LATE),)))
    for ms in cuts:
        world.cut_at(ms)
    outcome = world.run()
    assert outcome.valid, outcome.what
    assert world.served
    return world


@pytest.fixture(scope="module")
def whole() -> int:
    """The bytes of all chunks of the snapshot, sent once."""
    world = counting()
    assert world.begun == ["SnapBegin"]
    return world.chunk_bytes


@pytest.mark.parametrize("cuts", [(3_500,), (3_000, 4_000), (2_500, 3_200, 3_900, 4_600)])
def test_rest_of_a_snapshot_follows_on_the_next_link(whole: int, cuts: tuple[int, ...]) -> None:
    world = counting(*cuts)
    assert world.begun == ["SnapBegin", *["SnapResume"] * len(cuts)]
    assert whole <= world.chunk_bytes < 1.1 * whole


# -- with a server of an earlier version ---------------------------------------------------------------------


class EarlierPartialSnapshot(PartialSnapshot):
    def keep(self) -> None:
        super().keep()
        self.drop()


class EarlierLogState(LogState):
    def __init__(self, me: ServerId, ensemble: Ensemble, recovered: Recovered, settings: Settings) -> None:
        super().__init__(me, ensemble, recovered, settings)
        self.partial = EarlierPartialSnapshot(self.out, recovered.held)


class EarlierLeader(Leader):
    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        assert not isinstance(message, SnapHeld), "an earlier version would cut the link"
        super().handle(source, message, now)
        if source in self.learners:
            self.learners[source].resumes = False


class EarlierLearner(Learner):
    def handle(self, source: ServerId, message: object, now: Millis) -> None:
        assert not isinstance(message, SnapResume), "an earlier version would cut the link"
        super().handle(source, message, now)
        if isinstance(self.phase, LearnerDiscovery):
            self.phase.resumes = False


class EarlierNode(ReportingNode):
    leader_class = EarlierLeader
    learner_class = EarlierLearner
    log_state_class = EarlierLogState


@pytest.mark.parametrize("earlier", [LEADER, LATE])
def test_snapshot_begins_anew_if_one_of_both_is_of_an_earlier_version(
    earlier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def node(life: Any, me: ServerId, *others: Any) -> ReportingNode:
        return (EarlierNode if me == earlier else ReportingNode)(life, me, *others)

    monkeypatch.setattr("harness.worlds.stack.server.ReportingNode", node)
    assert counting(3_500).begun == ["SnapBegin", "SnapBegin"]
