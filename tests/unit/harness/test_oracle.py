"""When must three servers serve, and when can they not? Scripts as a person writes them, and the answer beside each."""

from __future__ import annotations

import pytest

from harness.checkers import Judge, OracleState, Violation
from harness.faults import (
    LEADER,
    ClockDrift,
    Crash,
    CrashIn,
    Deaf,
    Fault,
    Isolate,
    LoseDisk,
    Partition,
    Pause,
    Reconfigure,
    Script,
    Split,
    Write,
)
from harness.members import member
from harness.mutants.edit import mutant, planted
from harness.oracle import Oracle, Segment, Service, timeline
from harness.worlds.cores.world import run
from tests.histories.oracle import abstained
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId, make

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)
MUST, MUST_NOT, UNKNOWN = Service.MUST, Service.MUST_NOT, Service.UNKNOWN


def words(*faults: Fault, voters: int = 3, ops: tuple[Write | Reconfigure, ...] = ()) -> list[tuple[int, str]]:
    """From which millisecond on it is what; equal neighbours in one."""
    found: list[tuple[int, str]] = []
    for segment in timeline(Script(1, voters=voters, length_ms=1_000, faults=faults, ops=ops)):
        if not found or found[-1][1] != segment.service.value:
            found.append((segment.begin, segment.service.value))
    return found


def test_without_faults_it_must_serve_all_the_time() -> None:
    assert words() == [(0, "must")]


def test_one_of_three_may_be_down_and_two_make_it_unknown() -> None:
    assert words(Crash(100, 200, server=1)) == [(0, "must")]
    assert words(Crash(100, 200, server=1), Pause(150, 100, server=2)) == [(0, "must"), (150, "unknown"), (250, "must")]


def test_two_of_five_may_be_away() -> None:
    assert words(Crash(100, 200, server=1), Pause(150, 100, server=2), voters=5) == [(0, "must")]


def test_fault_of_leader_counts_as_one_more_absent_server() -> None:
    assert words(Isolate(100, 200, LEADER)) == [(0, "must")]
    both = words(Isolate(100, 200, LEADER), Isolate(200, 200, 1))
    assert both == [(0, "must"), (200, "unknown"), (300, "must")]


def test_no_decision_possible_without_a_connected_quorum() -> None:
    apart = Partition(100, 200, ((1,), (2,), (3,)))
    assert words(apart) == [(0, "must"), (100, "must not"), (300, "must")]
    two_alone = words(Isolate(100, 300, 1), Isolate(200, 300, 2))
    assert two_alone == [(0, "must"), (200, "must not"), (400, "must")]


def test_halves_keep_a_majority_and_bridges_are_unknown() -> None:
    assert words(Split(100, 200, "halves", 1)) == [(0, "must")]
    assert words(Split(100, 200, "bridge", 1)) == [(0, "must"), (100, "unknown"), (300, "must")]
    bridge = Partition(100, 200, ((1, 2), (2, 3)))
    assert words(bridge) == [(0, "must"), (100, "unknown"), (300, "must")]


def test_a_lost_disk_is_lost_for_good() -> None:
    assert words(LoseDisk(100, 100, 1)) == [(0, "must")]
    assert words(LoseDisk(100, 100, 1), Pause(600, 100, 2)) == [(0, "must"), (600, "unknown"), (700, "must")]


def test_wrong_clocks_and_deaf_servers_are_unknown_while_they_last() -> None:
    assert words(ClockDrift(100, 200)) == [(0, "must"), (100, "unknown"), (300, "must")]
    assert words(Deaf(100, 200, 1)) == [(0, "must"), (100, "unknown"), (300, "must")]


def test_fault_at_a_moment_of_the_run_never_ends() -> None:
    assert words(CrashIn(400)) == [(0, "must"), (400, "unknown")]


def test_service_is_unknown_after_membership_change() -> None:
    apart = Partition(500, 200, ((1,), (2,), (3,)))
    assert words(apart, ops=(Reconfigure(300, "remove", 1),)) == [(0, "must"), (300, "unknown")]


def test_the_share_of_abstentions() -> None:
    assert abstained(timeline(Script(1, length_ms=1_000, faults=(ClockDrift(100, 250),)))) == 0.25


# -- against what happens --------------------------------------------------------------------------------


class Told:
    """A leader in a segment in which nothing can be decided."""

    def __init__(self) -> None:
        self.now = 0
        ghost = OracleState(Ensemble((member(ONE), member(TWO), member(THREE))), 3)
        segments = [Segment(0, 100, MUST), Segment(100, 200, MUST_NOT), Segment(200, 300, MUST_NOT)]
        self.judge = Judge(ghost, [lambda _: Oracle(ghost, segments, lambda: self.now)])
        self.judge.role(THREE, State.LEADING, Epoch(1), THREE, True)

    def proposes(self, at_ms: int) -> None:
        self.now = at_ms * 1_000
        batch = pack(make(1, 1), [b"x"])
        self.judge.proposed(THREE, batch.first, batch.payloads())
        self.judge.appended(THREE, batch)

    def commits(self, at_ms: int) -> None:
        self.now = at_ms * 1_000
        self.judge.committed(THREE, make(1, 1), True)


@pytest.mark.parametrize(("proposed", "committed"), [(50, 150), (150, 250), (250, 350)])
def test_proposal_of_another_segment_may_commit(proposed: int, committed: int) -> None:
    told = Told()
    told.proposes(proposed)
    told.commits(committed)


def test_commit_within_must_not_segment_is_reported() -> None:
    told = Told()
    told.proposes(110)
    with pytest.raises(Violation, match="commits 1/1, which was proposed after 100 ms") as caught:
        told.commits(190)
    assert caught.value.invariant == "decides only with a connected quorum"


def test_missing_service_longer_than_bound_is_reported() -> None:
    ghost = OracleState(Ensemble((member(ONE), member(TWO), member(THREE))), 3)
    oracle = Oracle(ghost, [Segment(0, 500, MUST), Segment(500, 900, UNKNOWN)], lambda: 0)
    assert oracle.unserved([(100, 300), (400, 900)], 200) is None
    broken = oracle.unserved([(100, 301)], 200)
    assert broken is not None
    assert broken.invariant == "serves while a quorum is connected"
    assert "from 100 to 301 ms no server serves" in broken.what


ALONE = Script(
    5,
    length_ms=3_000,
    ops=tuple(Write(at) for at in range(400, 1_400, 20)),
    faults=(Partition(500, 800, ((1,), (2,), (3,))),),
)


def test_a_server_that_commits_alone_is_noticed() -> None:
    """Before it steps down, the leader is asked for more, and nobody is there to agree."""
    assert run(ALONE, checkers=[]).valid
    edit = "reached = log_state.ensemble.quorum_zxid(acked)", "reached = max(acked.values())"
    alone = mutant("alone", "", ("zab.core.leader.commit_accounting:CommitAccounting.advance", *edit))
    with planted(alone.edits):
        outcome = run(ALONE, checkers=[])
    assert outcome.invariant == "decides only with a connected quorum"


CALM = Script(5, length_ms=20_000, faults=(Crash(2_000, 17_000, 3),))


@pytest.mark.parametrize("name", ["nobody is chosen"])
def test_an_ensemble_that_does_not_come_back_is_noticed(name: str) -> None:
    """Server 3 leads at first. When it is gone the others are a quorum, and must find each other."""
    assert run(CALM, checkers=[]).valid
    where = "zab.core.leader.leader_discovery:LeaderDiscovery._choose_epoch"
    stubborn = mutant(name, "", (where, "if not self._role.quorums.has(infos):", "if len(infos) < 2:"))
    with planted(stubborn.edits):
        outcome = run(CALM, checkers=[])
    assert outcome.invariant == "serves while a quorum is connected"
