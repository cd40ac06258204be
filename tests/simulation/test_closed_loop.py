"""Writes stay outstanding until the healing, and a follower that keeps up is not dropped."""

from __future__ import annotations

from typing import Final

import pytest

from harness.faults import Crash, Knobs, Script, Timing
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.worlds.cores.world import run, world_of

TIMER_NOT_RESET: Final = BY_NAME["slow-follower-timer-not-reset"]
SLOW: Final = Timing(fsync_us_min=5_000, fsync_us_max=30_000)


def loop(outstanding: int, seed: int = 1, timing: Timing = SLOW) -> Script:
    return Script(seed, length_ms=1_500, timing=timing, knobs=Knobs(closed_loop=outstanding, tick_ms=50))


@pytest.mark.parametrize("outstanding", [1, 8, 64])
def test_writes_are_outstanding_until_the_healing(outstanding: int) -> None:
    world = world_of(loop(outstanding))
    seen: list[int] = []

    def look(_: object, __: object) -> None:
        leader = world.leader()
        seen.append(0 if leader is None else len(leader.submitted))

    for at_ms in range(500, 1_500, 100):
        world.push(at_ms * 1_000, look, None, None)
    outcome = world.run()
    assert outcome.valid
    assert all(count <= outstanding for count in seen)
    assert sum(map(bool, seen)) >= (3 if outstanding == 1 else 8)


def test_a_new_leader_is_written_to() -> None:
    script = loop(8)
    quiet = run(script).acknowledged
    crashed = run(Script(1, length_ms=1_500, timing=SLOW, knobs=script.knobs, faults=(Crash(500, 900, 0),)))
    assert crashed.valid
    assert crashed.elections > 1
    assert quiet / 4 < crashed.acknowledged < quiet


def test_a_loop_is_of_the_list_only() -> None:
    knobs = Knobs(closed_loop=8)
    assert run(Script(1, machine="store", length_ms=600, knobs=knobs)).acknowledged == 0


def test_a_drop_without_a_cause_is_a_violation() -> None:
    assert all(run(loop(32, seed)).valid for seed in range(3))
    with planted(TIMER_NOT_RESET.edits):
        found = {run(loop(32, seed)).invariant for seed in range(3)}
        assert all(run(loop(0, seed)).valid for seed in range(3))
    assert "a healthy follower is not dropped" in found
