"""The budget of a recovery: what is allowed, and what is too much."""

from __future__ import annotations

import pytest

from harness.budgets import COMMITTED, FOLLOWS, MESSAGES, SHUT_DOWN, SYNCS, USED_UP, Recovery, exceeded


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
