"""For every promise of a controller, stories by hand: those that keep it are legal, those that break it are result_of
to."""

from __future__ import annotations

import pytest

from harness.checkers.controller import judged
from harness.history import History
from tests.histories.controller import EXAMPLES, Example, settled


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=EXAMPLES)
def test_a_story_is_judged_as_it_should_be(case: Example) -> None:
    for bad in (False, True):
        s = case.scenario(bad)
        broken = judged(History(tuple(s.events), tuple(s.changes)), s.facts)
        assert (None if broken is None else broken.invariant) == (case.invariant if bad else None), broken


HARMLESS = {"nothing", "another version is case", "a follower knows another version"}


@pytest.mark.parametrize("name", settled.UNSETTLED)
def test_what_is_left_undone_is_noticed(name: str) -> None:
    made = settled.cluster()
    settled.UNSETTLED[name](made)
    assert (made.result_of() == (None, None)) is (name in HARMLESS)
