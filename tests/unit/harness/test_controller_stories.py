"""For every promise of a controller, stories by hand: those that keep it are legal, those that break it are said to."""

from __future__ import annotations

import pytest

from harness.checkers.controller import judged
from harness.history import History
from tests.histories.controller import STORIES, Told, settled


@pytest.mark.parametrize("told", STORIES.values(), ids=STORIES)
def test_a_story_is_judged_as_it_should_be(told: Told) -> None:
    for bad in (False, True):
        tale = told.tale(bad)
        broken = judged(History(tuple(tale.events), tuple(tale.changes)), tale.facts)
        assert (None if broken is None else broken.invariant) == (told.invariant if bad else None), broken


HARMLESS = {"nothing", "another version is told", "a follower knows another version"}


@pytest.mark.parametrize("spoilt", settled.SPOILT)
def test_unfinished_work_of_controller_is_reported(spoilt: str) -> None:
    made = settled.cluster()
    settled.SPOILT[spoilt](made)
    assert (made.said() == (None, None)) is (spoilt in HARMLESS)
