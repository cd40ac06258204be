"""Making a failing script small: nothing in it can be missed, and it fails in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from attrs import evolve

from harness.draw import script_from_seed
from harness.faults import Crash, Script, Write
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.shrink import Moment, Proof, Stop, ddmin, same_invariant, shrink
from harness.shrink.plainer import REGULAR
from harness.shrink.trials import items_of, made_of
from harness.worlds.cores.world import run


@pytest.mark.parametrize("seed", range(20))
def test_ddmin_finds_the_needles(seed: int) -> None:
    random = Random(seed)
    needles = sorted(random.sample(range(200), 3))
    tried = 0

    def fails(items: Sequence[int]) -> bool:
        nonlocal tried
        tried += 1
        return all(needle in items for needle in needles)

    assert ddmin(range(200), fails) == needles
    assert tried < 150


def test_ddmin_of_what_always_fails_is_nothing() -> None:
    assert ddmin([1, 2, 3], lambda _: True) == []
    assert ddmin([], lambda _: True) == []


def test_interrupted_search_keeps_the_smallest_script_so_far() -> None:
    script, runs = script_from_seed(12), 0

    def broke(candidate: Script) -> Moment | None:
        nonlocal runs
        runs += 1
        if runs == 8:
            raise KeyboardInterrupt
        return Moment(900) if any(isinstance(op, Write) for op in candidate.ops) else None

    small = shrink(script, broke)
    assert small.stopped is Stop.INTERRUPT
    assert runs == 8
    assert not small.proof.whole
    assert len(items_of(small.script)) < len(items_of(script))
    assert any(isinstance(op, Write) for op in small.script.ops)


def test_a_failure_shrinks_to_what_it_needs() -> None:
    """As long as it crashes server 2 and writes three times before, it `fails`."""
    script = script_from_seed(12)
    crash = Crash(900, 700, 2, "tear")
    script = evolve(script, faults=(*script.faults[:5], crash, *script.faults[5:]))

    def broke(candidate: Script) -> Moment | None:
        crashes = [fault for fault in candidate.faults if isinstance(fault, Crash) and fault.server == 2]
        writes = [op for op in candidate.ops if isinstance(op, Write) and crashes and op.at < crashes[0].at]
        return Moment(crashes[0].at) if crashes and len(writes) >= 3 else None

    assert broke(script)
    small = shrink(script, broke)
    (left,) = small.script.faults
    assert left == evolve(crash, at=left.at, down_ms=10)
    assert left in small.proof.needed
    assert len(small.proof.needed) == 4
    assert small.proof.whole
    assert [(type(op), getattr(op, "count", 0), getattr(op, "size", 0)) for op in small.script.ops] == [
        (Write, 1, 0)
    ] * 3
    assert small.script.length_ms <= 1_001
    assert small.runs <= 100


@pytest.mark.parametrize("name", ["truncate-to-own-commit", "newer-history-ignored", "M06c"])
def test_a_real_failure_keeps_failing_in_the_same_way_and_nothing_in_it_can_be_missed(name: str) -> None:
    with planted(BY_NAME[name].edits):
        seed = next(seed for seed in range(100) if not run(script_from_seed(seed)).valid)
        script = script_from_seed(seed)
        invariant = run(script).invariant
        small = shrink(script, same_invariant(run, invariant))
        assert run(small.script).invariant == invariant
        assert small.proof.whole
        assert small.proof.needed == tuple(items_of(small.script))
        for gone in small.proof.needed:
            less = made_of(small.script, [item for item in items_of(small.script) if item is not gone])
            assert run(less).invariant != invariant, f"{gone} can be missed"
    assert run(small.script).valid, "without the bug there is nothing to see"


def test_failure_of_every_script_shrinks_to_empty_script() -> None:
    small = shrink(script_from_seed(5), lambda _: Moment(100))
    assert not items_of(small.script)
    assert small.runs <= 10
    assert small.proof == Proof((), (), 0)


def test_the_schedule_becomes_regular_where_the_failure_survives_it() -> None:
    script = script_from_seed(11)
    assert shrink(script, lambda _: Moment(100)).script.timing == REGULAR
    slow = shrink(script, lambda candidate: Moment(100) if candidate.timing.delay_us_max > 1_000 else None)
    assert slow.script.timing.fsync_us_max == REGULAR.fsync_us_max
    assert slow.script.timing.delay_us_max > 1_000


def test_two_faults_that_make_up_for_each_other_go_together() -> None:
    """Either alone is missed, but not both: an odd number of crashes is what fails."""
    crashes = tuple(Crash(at, server=server) for at, server in ((100, 1), (200, 2), (300, 3)))
    script = Script(1, length_ms=1_000, faults=crashes)
    small = shrink(script, lambda candidate: Moment(400) if len(candidate.faults) % 2 else None)
    assert len(small.script.faults) == 1


def test_the_budget_is_kept_and_what_could_not_be_tried_is_not_called_proven() -> None:
    runs = 0

    def broke(_: Script) -> Moment | None:
        nonlocal runs
        runs += 1
        return Moment(5_000) if runs % 2 == 0 else None

    small = shrink(script_from_seed(3), broke, runs_max=10)
    assert small.runs == runs == 10
    assert not small.proof.whole
    assert small.stopped is Stop.RUNS


@pytest.mark.parametrize(("runs_max", "length_ms"), [(400, 901), (0, 3_000)])
def test_end_is_cut_at_the_violation_however_short_the_time(runs_max: int, length_ms: int) -> None:
    script = Script(1, length_ms=3_000, ops=(Write(300), Write(900), Write(2_000)))
    small = shrink(script, lambda _: Moment(900), at_ms=900, runs_max=runs_max, seconds_max=0)
    assert small.script.length_ms == length_ms
    assert small.runs == min(runs_max, 1)
    assert small.stopped is (Stop.SECONDS if runs_max else Stop.RUNS)


def test_complete_search_says_so() -> None:
    script = Script(1, length_ms=3_000, ops=(Write(300), Write(900)))
    assert shrink(script, lambda _: Moment(900)).stopped is None


def test_violation_at_the_end_is_cut_by_halves() -> None:
    """A promise that is only judged in the end does not say when it was broken: the end is found by halves."""
    script = Script(1, length_ms=3_000, ops=tuple(Write(at) for at in range(0, 3_000, 50)))

    def broke(candidate: Script) -> Moment | None:
        return Moment(candidate.length_ms + 900) if any(op.at == 200 for op in candidate.ops) else None

    small = shrink(script, broke)
    assert [op.at for op in small.script.ops] == [200]
    assert small.script.length_ms <= 300
    assert small.runs_by_step["cut"] <= 15
