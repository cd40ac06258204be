"""Pairs of faults that overlapped."""

from __future__ import annotations

from harness.draw import script_from_seed
from harness.recoveries import Hit, overlap_summary, overlaps
from harness.worlds.cores.world import run


def test_faults_overlap_while_one_lasts() -> None:
    hits = [
        Hit("Pause", 0, 50),
        Hit("Crash", 10, 30),
        Hit("Isolate", 40, 90),
        Hit("Crash", 60, 61),
        Hit("Loss", 200, 300),
    ]
    assert overlaps(hits) == {("Crash", "Pause"), ("Isolate", "Pause"), ("Crash", "Isolate")}
    assert overlaps([Hit("Crash", 0, 10), Hit("Crash", 10, 20)]) == {("Crash", "Crash")}, "both last at that moment"
    assert overlaps([]) == frozenset()


def test_summary_counts_the_pairs_of_the_kinds_that_occurred() -> None:
    found = frozenset({("Crash", "Pause"), ("Crash", "Crash")})
    assert overlap_summary(found) == "2 of 3 pairs of faults overlapped; never Pause with Pause"
    assert overlap_summary(found | {("Pause", "Pause")}) == "3 of 3 pairs of faults overlapped"
    assert overlap_summary(frozenset()) == ""


def test_run_names_its_overlaps() -> None:
    outcome = run(script_from_seed(2))
    kinds = {name.removeprefix("hit ") for name, _ in outcome.counts if name.startswith("hit ")}
    assert outcome.overlaps
    assert {kind for pair in outcome.overlaps for kind in pair} <= kinds
