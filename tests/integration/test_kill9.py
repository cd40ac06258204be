"""`kill -9` of real processes: no acknowledged write is lost, none happens twice, no two members differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.kill9 import Campaign, Claims, fight, judge, read_claims

HISTORY = ["1.1.0.1", "2.1.0.1", "1.1.0.2", "2.1.0.2", "1.1.0.3"]
TOLD = Claims({"1.1.0.1": 0, "2.1.0.1": 1, "1.1.0.2": 2, "2.1.0.2": 3}, frozenset())


def thrice(history: list[str]) -> Mapping[int, list[str]]:
    return {1: history, 2: history, 3: history}


def test_outstanding_writes_may_have_happened() -> None:
    assert judge(thrice(HISTORY), TOLD) == []


@pytest.mark.parametrize(
    ("history", "claims", "complaint"),
    [
        (HISTORY[:3], TOLD, "1 acknowledged values lost: 2.1.0.2"),
        ([*HISTORY, "1.1.0.1"], TOLD, "1 values doubled: 1.1.0.1"),
        ([HISTORY[2], HISTORY[1], HISTORY[0], *HISTORY[3:]], TOLD, "1 values out of order: 1.1.0.1"),
        (HISTORY, Claims({**TOLD.places, "2.1.0.2": 4}, frozenset()), "1 acknowledged values elsewhere than told"),
        ([*HISTORY, "1.1.0.4"], TOLD, "1 values that nobody wrote: 1.1.0.4"),
    ],
)
def test_the_judge_sees(history: list[str], claims: Claims, complaint: str) -> None:
    found = judge(thrice(history), claims)
    assert any(each.startswith(complaint) for each in found), found


def test_the_judge_sees_that_servers_differ() -> None:
    found = judge({1: HISTORY, 2: HISTORY[:-1], 3: HISTORY}, TOLD)
    assert found == ["servers 1 and 2 differ, 5 and 4 values, first at None"]


def test_unfinished_line_of_a_killed_writer_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "claims"
    path.write_text("1.1.0.1 0\n1.1.0.2 ?\n1.1.0.3 1")
    assert read_claims([path]) == Claims({"1.1.0.1": 0}, frozenset({"1.1.0.2"}))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_leaders_and_followers_are_killed(tmp_path: Path) -> None:
    campaign = Campaign(
        rounds=4, seed=7, victims=("leader", "leader", "follower"), load_s=(0.1, 0.3), down_s=(0.0, 0.3)
    )
    outcome = fight(campaign, tmp_path)
    assert outcome.wrong == []
    assert outcome.errors == []
    assert sum(outcome.kills.values()) == 4
    assert outcome.acknowledged > 0
