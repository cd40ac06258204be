"""The budget of a recovery: what is allowed, what is too much, and a bug that recovers by electing again and again."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.budgets import COMMITTED, INVARIANT, MESSAGES, SHUT_DOWN, SYNCS, Recovery, exceeded
from harness.draw import script_from_seed
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.worlds.cores.world import run


def test_recovery_with_one_election_is_within_its_budget() -> None:
    assert (
        exceeded(Recovery({"established": 1, "elected": 5, MESSAGES: 100, SYNCS: 40}, servers=5, took_ms=100)) is None
    )
    assert exceeded(Recovery({}, servers=3, took_ms=0)) is None


@pytest.mark.parametrize(
    ("counter", "most"),
    [
        ("established", 3),
        ("elected", 18),
        ("controller elected", 2),
        ("isr written", 60),
        ("replica isr_changed", 20),
        (MESSAGES, 540),
        (SYNCS, 250),
    ],
)
def test_each_counter_has_a_bound(counter: str, most: int) -> None:
    assert exceeded(Recovery({counter: most}, servers=3, took_ms=100)) is None
    what = exceeded(Recovery({counter: most + 1}, servers=3, took_ms=100))
    assert what is not None
    assert what.startswith(f"{most + 1} ")
    assert f"in 100 ms after the last fault; at most {most} are expected" in what


def test_leader_that_uses_up_its_epoch_may_be_elected_again() -> None:
    spent = {"established": 5, "elected": 24, COMMITTED: 54}
    assert exceeded(Recovery(spent, servers=3, took_ms=500, counter_max=53)) is None
    assert exceeded(Recovery(spent, servers=3, took_ms=500, counter_max=54)) is not None
    assert exceeded(Recovery(spent, servers=3, took_ms=500)) is not None


def test_each_transaction_may_be_synced_by_each_server() -> None:
    assert exceeded(Recovery({SYNCS: 490, COMMITTED: 10}, servers=3, took_ms=100)) is None
    assert exceeded(Recovery({SYNCS: 491, COMMITTED: 10}, servers=3, took_ms=100)) is not None


def test_each_controller_that_shuts_down_on_request_may_be_replaced() -> None:
    spent = {"controller elected": 3, SHUT_DOWN: 1}
    assert exceeded(Recovery(spent, servers=3, took_ms=100)) is None
    assert exceeded(Recovery({**spent, "controller elected": 4}, servers=3, took_ms=100)) is not None


@pytest.mark.parametrize("seed", [9, 13, 17])
def test_repeated_elections_after_the_last_fault_break_the_promise(seed: int) -> None:
    script = script_from_seed(seed)
    script = evolve(script, knobs=evolve(script.knobs, quiet_stage=0))  # which has a bound, and no budget
    assert run(script).valid
    with planted(BY_NAME["looking-server-disturbs"].edits):
        outcome = run(script)
    assert outcome.invariant == INVARIANT
    assert "servers that found a leader" in outcome.what
