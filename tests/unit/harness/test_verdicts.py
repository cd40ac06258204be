"""Stored acts, judged again without any of the code that judged the run."""

from __future__ import annotations

from typing import Any

import pytest

from harness.draw import script_from_seed
from harness.spark.rows import act_rows
from harness.spark.stages.recheck import dealt
from harness.spark.verdicts import ORDER, delivered_in_order
from harness.worlds import world

BUDGET = 10_000


def acts(*lines: str) -> list[dict[str, Any]]:
    """`1 applies 2/1..2/3`: server, verb, with what."""
    made = []
    for number, line in enumerate(lines):
        server, verb, *what = line.split(" ")
        made.append({"number": number, "server": int(server), "verb": verb, "what": " ".join(what)})
    return made


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("1 applies 1/1", "2 applies 1/1..1/3", "1 applies 1/2", "1 applies 1/3", "2 applies 2/1", "1 applies 2/1"),
        ("1 applies 1/1..1/3", "1 crashes lose", "1 applies 1/1", "1 applies 1/2..1/3"),
        ("1 applies 1/1..1/4", "2 restores", "2 applies 1/4", "2 applies 3/1", "1 applies 3/1"),
    ],
)
def test_one_order_for_all_is_in_order(lines: tuple[str, ...]) -> None:
    said = delivered_in_order(acts(*lines), BUDGET)
    assert (said.verdict, said.what) == ("valid", "")


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (("1 applies 1/2", "1 applies 1/1"), "server 1 at row 1 applies 1/1 after 1/2"),
        (("1 applies 1/1", "1 applies 1/1"), "server 1 at row 1 applies 1/1 after 1/1"),
        (
            ("1 applies 1/1..1/3", "2 applies 1/1", "2 applies 1/3"),
            "server 2 at row 2 applies 1/3 after 1/1, but another one after 1/2",
        ),
    ],
)
def test_two_orders_are_found_and_named(lines: tuple[str, ...], what: str) -> None:
    said = delivered_in_order(acts(*lines), BUDGET)
    assert (said.verdict, said.invariant, said.what) == ("invalid", ORDER, what)


def test_exceeded_budget_and_invalid_zxid_are_unknown() -> None:
    rows = acts("1 applies 1/1..1/60", "2 applies 1/1..1/60")
    assert delivered_in_order(rows, 119).verdict == "unknown"
    said = delivered_in_order(rows, 120)
    assert (said.verdict, said.steps) == ("valid", 120)
    assert delivered_in_order(acts("1 applies nothing"), BUDGET).verdict == "unknown"


@pytest.mark.parametrize("name", ["cores", "stack"])
def test_recorded_events_are_in_order(name: str) -> None:
    outcome = world(name).run(script_from_seed(5, voters=5), trace=True)
    assert outcome.trace is not None
    said = delivered_in_order(act_rows(5, outcome.trace), 1_000_000)
    assert said.verdict == "valid"
    assert said.steps > 2 * outcome.committed > 0, "it has seen what was applied"


def test_histories_are_dealt_out_by_their_cost() -> None:
    hands = dealt([(1, 100), (2, 10), (3, 60), (4, 50), (5, 1)], 2)
    costs = {1: 100, 2: 10, 3: 60, 4: 50, 5: 1}
    loads = [sum(costs[seed] for seed, hand in hands.items() if hand == each) for each in (0, 1)]
    assert sorted(loads) == [110, 111]
    assert dealt([], 3) == {}
