"""`kill -9` of real servers: no acknowledged write is lost, no write happens twice, and all servers agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.worlds.processes.kill_rounds import Rounds, judge, run_rounds

HISTORY = [(10, "101.1"), (11, "201.1"), (12, "101.2"), (13, "201.2"), (14, "101.3")]
PLACES = {"101.1": 10, "201.1": 11, "101.2": 12, "201.2": 13}


def test_outstanding_writes_may_have_happened() -> None:
    assert judge(HISTORY, PLACES, kills=1) == []


@pytest.mark.parametrize(
    ("history", "places", "complaint"),
    [
        (HISTORY[:3], PLACES, "1 lost acknowledged values: 201.2"),
        ([*HISTORY, (15, "101.1")], PLACES, "1 values twice in the history: 101.1"),
        ([HISTORY[2], HISTORY[1], HISTORY[0], *HISTORY[3:]], PLACES, "1 values out of order: 101.1"),
        (HISTORY, {**PLACES, "201.2": 14}, "1 values not at the acknowledged zxid: 201.2"),
        ([*HISTORY, (15, "101.4")], PLACES, "1 writers with more values in flight than kills: 101"),
    ],
)
def test_judge_detects(history: list[tuple[int, str]], places: dict[str, int], complaint: str) -> None:
    found = judge(history, places, kills=1)
    assert any(each.startswith(complaint) for each in found), found


@pytest.mark.slow
def test_acknowledged_writes_survive_kills_of_leaders_and_followers(tmp_path: Path) -> None:
    rounds = Rounds(4, 7, ("leader", "leader", "follower"), load_s=(0.1, 0.3), down_s=(0.0, 0.3))
    found = run_rounds(rounds, tmp_path / "kill9")
    assert found.wrong == []
    assert found.errors == set()
    assert sum(found.kills.values()) == 4
    assert len(found.places) > 0
