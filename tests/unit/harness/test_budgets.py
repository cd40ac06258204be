"""The budget of a recovery: what is allowed, what is too much, and a bug that recovers by electing again and again."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.budgets import COMMITTED, FOLLOWS, INVARIANT, MESSAGES, SHUT_DOWN, SYNCS, USED_UP, Recovery, exceeded
from harness.draw import script_from_seed
from harness.faults import Ask, Connect, Knobs, Script, Step
from harness.mutants.edit import Edit, planted
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
    spent = {"established": 5, "elected": 24, USED_UP: 2}
    assert exceeded(Recovery(spent, servers=3, took_ms=500)) is None
    assert exceeded(Recovery({**spent, USED_UP: 1}, servers=3, took_ms=500)) is not None


def test_commits_alone_do_not_explain_an_epoch() -> None:
    spent = {"established": 5, "elected": 24, COMMITTED: 1_000}
    assert exceeded(Recovery(spent, servers=3, took_ms=500)) is not None


def test_each_transaction_may_be_synced_by_each_server() -> None:
    assert exceeded(Recovery({SYNCS: 490, COMMITTED: 10}, servers=3, took_ms=100)) is None
    assert exceeded(Recovery({SYNCS: 491, COMMITTED: 10}, servers=3, took_ms=100)) is not None


def test_each_replica_that_begins_to_follow_may_join_the_isr() -> None:
    spent = {"replica isr_changed": 22, FOLLOWS: 2}
    assert exceeded(Recovery(spent, servers=3, took_ms=100)) is None
    assert exceeded(Recovery({**spent, FOLLOWS: 1}, servers=3, took_ms=100)) is not None


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


def burst_of_writes(counter_max: int) -> Script:
    """Return a script whose clients request many more writes at its end than an epoch has zxids."""
    clients = range(1, 5)
    parent = Ask(260, 1, (Step("create", "/a"),))
    writes = (
        Ask(300 + at, client, (Step("create", "/a/s-", mode="sequential"),)) for at in range(40) for client in clients
    )
    connects = (Connect(60 + client, client, 1 + client % 3, 2_000) for client in clients)
    return Script(
        0,
        machine="store",
        length_ms=400,
        ops=(*connects, parent, *writes),
        knobs=Knobs(tick_ms=50, counter_max=counter_max),
    )


def test_run_counts_the_epochs_that_writes_use_up() -> None:
    outcome = run(burst_of_writes(20))
    assert outcome.valid
    counts = dict(outcome.counts)
    assert counts["established"] == counts[USED_UP] + 1 > 8
    assert USED_UP not in dict(run(burst_of_writes(1_000)).counts)


def test_leader_that_resigns_before_its_epoch_is_used_up_breaks_the_budget() -> None:
    limit = "self._log_state.settings.counter_max"
    early = Edit("zab.core.leader.leader_broadcast:LeaderBroadcast._next_zxid", limit, f"{limit} // 4")
    with planted((early,)):
        outcome = run(burst_of_writes(20))
    assert outcome.invariant == INVARIANT
    assert "epochs established" in outcome.what
