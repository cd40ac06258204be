"""For every promise, histories by hand: those that keep it are legal, those that break it are said to break it."""

from __future__ import annotations

import pytest

from harness.checkers.store import judge
from tests.histories.stories import STORIES, Story


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_is_judged_as_it_should_be(story: Story) -> None:
    verdict = judge(story.history)
    if not story.broken:
        assert verdict.valid, str(verdict)
    else:
        promises = [each.invariant for each in verdict.store.broken] or [str(verdict.invariant)]
        assert story.broken in promises, str(verdict)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("an_event_comes_twice", "the event created /x of zxid 0x3 came twice"),
        ("who_was_away_is_told_twice_of_the_same", "the event data /x came twice"),
        ("who_was_away_is_told_of_nothing", "the event data /x came, and all that it could tell of had been seen"),
        (
            "a_session_is_told_of_its_end_before_anybody_ended_it",
            "it was told of its end at 60, before it ended: that was at zxid 0x9, behind 0x5 of call 2",
        ),
    ],
)
def test_the_first_words_are_of_what_went_wrong(name: str, words: str) -> None:
    assert words in judge(STORIES[name].history).what
