"""What an analysis found, as a page, and beside that of another campaign."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.cli.stored import summary
from harness.spark.analysis import Analysis, store, stored
from harness.spark.compare import compare, text
from harness.spark.layout import Layout, LayoutError
from harness.spark.schema import VERSION

PLAN = {
    "voters": [3],
    "observers": None,
    "faults": 20,
    "ops": 100,
    "length_ms": 3000,
    "world": "cores",
    "machine": "list",
    "mutant": None,
}
CLUSTER = {
    "invariant": "agreement",
    "slice": "Crash, Write",
    "failures": 3,
    "seeds": [4, 7, 9],
    "seed": 4,
    "what": "server 2 applies <b>1/1</b>",
    "voters": 3,
    "small": None,
    "says": ["server # applies #"],
}


def recovered(kind: str, **changed: Any) -> dict[str, Any]:
    """Nine faults, of which seven interrupted somebody, and none cut off a client."""
    row: dict[str, Any] = {"kind": kind, "faults": 9}
    for what, values in {"leader": (7, 40, 80, 120, 130), "write": (9, 50, 90, 150, 160), "sessions": (0,)}.items():
        names = [f"{what}_{name}" for name in ("times", "p50", "p90", "p99", "max")]
        row |= dict.fromkeys(names) | dict(zip(names, values, strict=False))
    return row | changed


def page(made: Analysis, folder: Path) -> str:
    """Import matplotlib only if a test of this file runs."""
    from harness.spark.page import page as written

    return written(made, folder)


def analysis(**changed: Any) -> Analysis:
    """Of a hundred runs of which three failed, unless something else is said."""
    total = {"world": "cores", "machine": "list", "voters": 3, "runs": 100, "valid": 97, "invalid": 3}
    total |= {"unknown": 0, "error": 0, "events": 9, "simulated_ms": 9, "committed": 9, "acknowledged": 9}
    total |= {"elections": 200, "messages": 9, "operations": 9, "core_seconds": 2.0}
    total |= {"runs_per_core_minute": 3_000.0, "simulated_per_core_second": 150.0}
    strike = {"kind": "Crash", "phase": "broadcast", "outcome": "invalid", "strikes": 7, "runs": 3}
    outage = {"kind": "Crash", "outages": 9, "p50": 20, "p90": 70, "p99": 200, "max": 250}
    tables: dict[str, list[dict[str, Any]]] = {
        "totals": [total],
        "strikes": [strike, {**strike, "phase": "election", "outcome": "valid"}],
        "outages": [outage],
        "recoveries": [recovered("Crash")],
        "waiting": [],
        "synchronizations": [{"voters": 3, "form": "diff", "times": 4}],
        "elections": [{"kind": "Crash", "runs": 9, "elections": 2.0, "elections_per_fault": 0.5}],
        "messages": [{"voters": 3, "messages": 9, "per_operation": 1.0, "per_transaction": 1.0}],
        "probes": [{"name": "sync diff", "times": 4, "runs": 4, "first_seed": 1}],
        "verbs": [],
        "verdicts": [{"verdict": "valid", "invariant": None, "histories": 5, "steps": 9, "core_seconds": 0.1}],
        "unknown": [],
        "given_up": [],
        "again": [{"seed": 1, "voters": 3, "same": True}],
        "curve": [{"place": 0, "new": 5}, {"place": 59, "new": 1}],
        "unseen": [
            {
                "runs": 100,
                "kinds": 6,
                "once": 1,
                "twice": 0,
                "chance_of_new": 0.01,
                "kinds_at_least": 6.0,
                "foretold": 0.02,
                "came": 0.0,
            }
        ],
        "odds": [
            {
                "invariant": "agreement",
                "kind": "Crash",
                "failed_with": 3,
                "failed_without": 0,
                "odds_ratio": 9.0,
                "low": 2.0,
                "high": 30.0,
            }
        ],
        "clusters": [CLUSTER],
        "quarantine": [{"source": "runs", "reason": "seed is missing", "count": 2}],
    }
    return Analysis(
        {**tables, **changed}, {"campaign": "cores-a-b", "plan": PLAN, "code": "b", "config": "a", "python": "3.11"}
    )


GOOD = {"totals": [{**analysis().tables["totals"][0], "invalid": 0, "valid": 100}], "clusters": [], "odds": []}

UNSURE = {
    **GOOD,
    "totals": [{**GOOD["totals"][0], "valid": 98, "unknown": 2}],
    "given_up": [{"seed": 5, "voters": 3, "what": "the run reached its budget of 300000 events after 900 ms"}],
    "verdicts": [{**analysis().tables["verdicts"][0], "verdict": "unknown", "histories": 1}],
}

# -- the verdict ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "invalid"),
    [
        ({}, True),
        (GOOD, False),
        ({**GOOD, "again": [{"seed": 1, "voters": 3, "same": False}]}, True),
        ({**GOOD, "verdicts": [{**analysis().tables["verdicts"][0], "verdict": "invalid"}]}, True),
        (UNSURE, False),
        ({**GOOD, "totals": [{**GOOD["totals"][0], "error": 1}]}, True),
    ],
)
def test_analysis_is_invalid_after_any_failure(changed: dict[str, Any], invalid: bool) -> None:
    assert analysis(**changed).invalid is invalid


def test_unknown_results_are_not_valid_and_are_listed(tmp_path: Path) -> None:
    made = analysis(**UNSURE)
    assert (made.unknown, made.valid, analysis(**GOOD).valid) == (3, False, True)
    shown = page(made, tmp_path)
    assert "Unknown: no invariant was violated in 100 runs, but 3 are unknown" in shown
    assert "the run reached its budget of 300000 events after 900 ms" in shown
    said = summary(made)
    assert "0 invalid, 2 unknown, 0 errors" in said
    assert "UNKNOWN the run reached its budget of 300000 events after 900 ms\n  zab-harness replay --seed 5" in said
    found = compare(analysis(**GOOD), made)
    assert found.worse
    assert "UNKNOWN: 0 -> 3" in text(found)
    assert not compare(made, made).worse


# -- the page ------------------------------------------------------------------------------------------


def test_page_is_self_contained_and_lists_failures(tmp_path: Path) -> None:
    (tmp_path / "diagrams").mkdir()
    (tmp_path / "diagrams/7.html").touch()
    shown = page(analysis(), tmp_path)
    assert "Invalid: 3 of 100 runs violated an invariant" in shown
    assert "zab-harness replay --seed 4 --servers 3</code>" in shown
    assert "server 2 applies &lt;b&gt;1/1&lt;/b&gt;" in shown
    assert '4 <a href="diagrams/7.html">7</a> 9' in shown, "a diagram is linked where there is one"
    assert "seed is missing" in shown
    assert re.findall('<(section|details) id="(.+?)"', shown) == [
        ("section", "failures"),
        ("section", "rejected-rows"),
        *(("details", name) for name in ("faults", "unavailability", "recovery", "coverage", "cost")),
    ]
    assert shown.count("<svg") == 4
    assert not re.findall(r"<script|<image|data:|@import|(?:src|href)=\"(?:https?:)?//", shown)
    assert page(analysis(), tmp_path) == shown, "the same numbers are the same page"


def test_pages_of_empty_and_of_valid_campaign(tmp_path: Path) -> None:
    assert '<h1 class="good">Valid: every invariant held in all 100 runs.</h1>' in page(analysis(**GOOD), tmp_path)
    empty: dict[str, list[dict[str, Any]]] = {name: [] for name in analysis().tables}
    shown = page(analysis(**empty), tmp_path)
    assert "No runs" in shown
    assert "<svg" not in shown


# -- stored --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text_", "said"),
    [(None, "No such file .*zab-harness analyze"), ("{", "no JSON"), ("{}", f"version: expected {VERSION}, not None")],
)
def test_an_analysis_is_stored_and_what_is_none_is_refused(text_: str | None, said: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "campaign=x")
    store(layout.analysis, analysis())
    assert stored(layout) == analysis()
    assert (layout.analysis / "tables/totals.parquet").exists()
    path = layout.analysis / "analysis.json"
    if text_ is None:
        path.unlink()
    else:
        path.write_text(text_)
    with pytest.raises(LayoutError, match=rf"analysis.json: {said}"):
        stored(layout)


def test_report_and_compare_as_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, made in (("a", analysis(**GOOD)), ("b", analysis())):
        store(Layout(tmp_path / name / "campaign=x").analysis, made)
    assert main(["report", str(tmp_path / "b")]) == 0
    assert "<svg" in Path(capsys.readouterr().out.strip()).read_text()
    assert main(["report", str(tmp_path / "b"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["page"]).name == "report.html"
    assert (told["valid"], told["runs"]["invalid"]) == (False, 3)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "NEW: agreement (in 0 -> 3 runs" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "b"), str(tmp_path / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gone"][0]["invariant"] == "agreement"
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "b/campaign=x/analysis/analysis.json").unlink()
    assert main(["report", str(tmp_path / "b")]) == 2
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2


# -- compared ------------------------------------------------------------------------------------------


def test_a_campaign_compared_to_itself() -> None:
    assert text(compare(analysis(), analysis())).splitlines() == [
        "runs 100 -> 100: invalid 3 -> 3, unknown 0 -> 0, errors 0 -> 0",
        "remaining: agreement (in 3 -> 3 runs, e.g. seed 4; needs Crash, Write)",
    ]
    assert text(compare(analysis(**GOOD), analysis(**GOOD))).splitlines()[1:] == ["nothing changed"]


def test_one_bug_under_other_seeds_is_still_there() -> None:
    """What is left of a failure that is made smaller differs from seed to seed; what is said of it does not."""
    other = {**CLUSTER, "slice": "Isolate, Write", "seed": 77, "seeds": [77], "what": "server 1 applies <b>9/4</b>"}
    found = compare(analysis(), analysis(clusters=[other, {**other, "slice": "Crash", "seed": 78}]))
    assert (found.new, found.gone) == ((), ())
    assert [row["failures_before"] for row in found.ongoing] == [3, 3]
    another = {**other, "what": "servers differ", "says": ["servers differ"]}
    found = compare(analysis(), analysis(clusters=[another]))
    assert [row["seed"] for row in found.new] == [77]
    assert [row["seed"] for row in found.gone] == [4]
    broken_otherwise = compare(analysis(), analysis(clusters=[{**CLUSTER, "invariant": "liveness"}]))
    assert len(broken_otherwise.new) == len(broken_otherwise.gone) == 1


def test_comparison_has_numbers_of_runs() -> None:
    more = {"totals": [{**GOOD["totals"][0], "runs": 400, "valid": 399, "invalid": 1}]}
    more["clusters"] = [{**CLUSTER, "failures": 1}]
    said = text(compare(analysis(), analysis(**more, probes=[])))
    assert "runs 100 -> 400: invalid 3 -> 1, unknown 0 -> 0, errors 0 -> 0" in said
    assert "remaining: agreement (in 3 -> 1 run, e.g. seed 4" in said
    assert "situations only in the first: sync diff (in 4 runs)" in said
    assert "share of runs invalid: 0.03 -> 0.0025 (of 100 -> 400)" in said
    assert "gone: agreement (in 3 -> 0 runs, e.g. seed 4" in text(compare(analysis(), analysis(**GOOD)))


def test_numbers_that_moved_by_a_tenth_are_named_the_greatest_first() -> None:
    usual = {**analysis().tables["outages"][0], "outages": 150}
    slower = {**usual, "outages": 120, "p50": 21, "p99": 900}
    found = compare(analysis(outages=[usual]), analysis(outages=[slower], probes=[]))
    assert [each.what for each in found.moved] == ["outage after Crash, 99 % ms"]
    assert found.situations_gone == ("sync diff",)
    assert "outage after Crash, 99 % ms: 200 -> 900 (of 150 -> 120)" in text(found)
    assert not found.worse
    found = compare(analysis(), analysis(recoveries=[recovered("Crash", leader_p50=90)]))
    assert [(each.what, each.of) for each in found.moved] == [("a quorum serves after Crash, median ms", (7, 7))]


def test_quantiles_of_too_few_are_counted_and_not_shown() -> None:
    usual, slower = ({**analysis().tables["outages"][0], "outages": 10, "p99": p99} for p99 in (200, 900))
    found = compare(analysis(outages=[{**usual, "p50": 20}]), analysis(outages=[{**slower, "p50": 40}]))
    assert {each.what: each.chance for each in found.moved} == {
        "outage after Crash, median ms": False,
        "outage after Crash, 99 % ms": True,
    }
    said = text(found)
    assert "outage after Crash, median ms: 20 -> 40 (of 10 -> 10)" in said
    assert "99 %" not in said
    assert said.endswith("1 quantile of too few values left out; --json has them")


# -- in a browser --------------------------------------------------------------------------------------
