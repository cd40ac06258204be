"""Examples of the invariants of a controller: each has the expected verdict."""

from __future__ import annotations

import pytest

from harness.checkers.controller import judged
from harness.history import History
from tests.histories.controller import EXAMPLES, Example, settled


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_example_has_the_expected_verdict(example: Example) -> None:
    for bad in (False, True):
        s = example.scenario(bad)
        broken = judged(History(tuple(s.events), tuple(s.changes)), s.facts)
        assert (None if broken is None else broken.invariant) == (example.invariant if bad else None), broken


HARMLESS = {"no change", "metadata has another version", "a follower has another version"}


@pytest.mark.parametrize("name", settled.UNSETTLED)
def test_unfinished_procedure_is_detected(name: str) -> None:
    made = settled.cluster()
    settled.UNSETTLED[name](made)
    assert (made.result() == (None, None)) is (name in HARMLESS)
