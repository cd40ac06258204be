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
from harness.shrink import ddmin, shrink
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


def test_a_failure_shrinks_to_what_it_needs() -> None:
    """As long as it crashes server 2 and writes three times before, it `fails`."""
    script = script_from_seed(12)
    crash = Crash(900, 700, 2, "tear")
    script = evolve(script, faults=(*script.faults[:5], crash, *script.faults[5:]))

    def fails(candidate: Script) -> bool:
        crashes = [fault for fault in candidate.faults if isinstance(fault, Crash) and fault.server == 2]
        writes = [op for op in candidate.ops if isinstance(op, Write) and crashes and op.at < crashes[0].at]
        return bool(crashes) and len(writes) >= 3

    assert fails(script)
    small = shrink(script, fails)
    assert small.script.faults == (evolve(crash, down_ms=1),)
    assert [(type(op), getattr(op, "count", 0), getattr(op, "size", 0)) for op in small.script.ops] == [
        (Write, 1, 0)
    ] * 3
    assert small.script.length_ms <= 901
    assert small.runs <= 150


def test_a_real_failure_keeps_failing_in_the_same_way() -> None:
    with planted(BY_NAME["truncate-to-own-commit"].edits):
        seed = next(seed for seed in range(50) if not run(script_from_seed(seed)).held)
        script = script_from_seed(seed)
        promise = run(script).promise
        small = shrink(script, lambda candidate: run(candidate).promise == promise, runs_max=150)
        assert run(small.script).promise == promise
        assert len(small.script.faults) + len(small.script.ops) <= len(script.faults) + len(script.ops)
    assert run(small.script).held, "without the bug there is nothing to see"


def test_the_budget_is_kept() -> None:
    runs = 0

    def fails(_: Script) -> bool:
        nonlocal runs
        runs += 1
        return runs % 2 == 0

    assert shrink(script_from_seed(3), fails, runs_max=10).runs == runs == 10
