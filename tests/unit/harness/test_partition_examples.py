"""The checkers of replication, with a legal and an illegal run for every invariant."""

from __future__ import annotations

import pytest

from harness.probes import OF_PARTITIONS, counted_as
from tests.histories.partitions import EXAMPLES, Example, assignments, cleaning, settled


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_only_the_bad_run_violates_the_invariant(example: Example) -> None:
    for so in (False, True):
        invariant, what, counts = example.result(so)
        assert invariant == (example.breaks if so else ""), what
        if example.reaches:
            assert (example.reaches in counts) is so, counts


def test_every_probe_is_reached_by_an_example() -> None:
    reached = {example.reaches for example in EXAMPLES.values()} - {""}
    assert reached == {counted_as(probe.name) for probe in OF_PARTITIONS}


@pytest.mark.parametrize("corruption", settled.CORRUPTIONS)
def test_unsettled_partitions_are_reported(corruption: str) -> None:
    cluster = settled.SettledCluster()
    settled.CORRUPTIONS[corruption](cluster)
    assert (cluster.result() == (None, None)) is (corruption in settled.LEGAL), cluster.result()


@pytest.mark.parametrize(("sent", "received", "expected"), assignments.EXAMPLES.values(), ids=assignments.EXAMPLES)
def test_assignment_is_of_its_generation(
    sent: tuple[assignments.Sent, ...], received: assignments.Received, expected: str
) -> None:
    member, generation, assignment = received
    text = f"{member} received assignment {assignment.decode()} in generation {generation} of group g"
    assert assignments.violation(sent, received) == (f"{text}, whose leader sent {expected}" if expected else "")


@pytest.mark.parametrize("example", cleaning.EXAMPLES.values(), ids=cleaning.EXAMPLES)
def test_compaction_removes_only_replaced_records(example: cleaning.Cleaned) -> None:
    invariant, what, _ = example.result()
    assert invariant == example.breaks, what


def test_compaction_without_a_log_is_not_judged() -> None:
    assert cleaning.without_a_log() == ()
