"""When a quorum serves, and what is blamed when none does."""

from __future__ import annotations

from harness.availability import NOTHING_YET, Availability, Outage, Strike
from harness.checkers import Judge, OracleState
from harness.draw import script_from_seed
from harness.members import member
from harness.worlds import world
from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.zxid import Epoch, ServerId

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)


class Clock:
    now = 0


def watched() -> tuple[Clock, Judge, Availability]:
    clock = Clock()
    ghost = OracleState(Ensemble((member(ONE), member(TWO), member(THREE))), 3)
    seen = Availability(ghost, lambda: clock.now)
    judge = Judge(ghost, (), seen.update)
    for known in ghost.servers[1:]:
        known.up = True
    return clock, judge, seen


def test_an_outage_lasts_from_the_last_quorum_to_the_next_and_the_start_is_none() -> None:
    clock, judge, seen = watched()
    judge.role(ONE, State.LEADING, Epoch(1), ONE, True)
    clock.now = 50_000
    assert seen.outages() == (), "a leader alone is no quorum, and there was none before"
    judge.role(TWO, State.FOLLOWING, Epoch(1), ONE, True)
    seen.struck("Crash", "broadcast")
    clock.now = 70_000
    judge.crashed(TWO)
    clock.now = 80_000
    assert seen.outages() == (Outage(70, 10, "Crash"),), "it is not over"
    seen.struck("Pause", "election")
    clock.now = 100_000
    judge.role(THREE, State.FOLLOWING, Epoch(1), ONE, True)
    clock.now = 200_000
    assert seen.outages() == (Outage(70, 30, "Crash"),), "the fault after it began is not blamed"
    assert seen.strikes() == (Strike("Crash", "broadcast", 1), Strike("Pause", "election", 1))


def test_an_outage_without_a_fault_is_nobodys() -> None:
    clock, judge, seen = watched()
    judge.role(ONE, State.LEADING, Epoch(1), ONE, True)
    judge.role(TWO, State.FOLLOWING, Epoch(1), ONE, True)
    judge.role(ONE, State.LOOKING, Epoch(1), None, False)
    clock.now = 5_000
    judge.role(ONE, State.LEADING, Epoch(2), ONE, True)
    assert seen.outages() == (Outage(0, 5, NOTHING_YET),)


def test_a_run_says_what_struck_when_and_for_how_long_nobody_served() -> None:
    for name in ("cores", "stack"):
        outcome = world(name).run(script_from_seed(42, voters=5, ops=200))
        assert {strike.kind for strike in outcome.strikes} > {"Isolate"}
        assert {strike.phase for strike in outcome.strikes} <= {
            "election",
            "discovery",
            "synchronization",
            "broadcast",
        }
        assert outcome.outages
        assert all(outage.took_ms > 0 for outage in outcome.outages)
        assert outcome.messages > outcome.committed
