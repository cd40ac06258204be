"""What there is room and time for, in stories by hand: each is judged as it should be."""

from __future__ import annotations

import pytest

from tests.histories.limits import passing, room, silence


@pytest.mark.parametrize("story", room.STORIES.values(), ids=room.STORIES)
def test_a_story_of_room(story: room.Told) -> None:
    assert story.said(False) == []
    assert story.said_outside(False) == []
    assert story.invariant in [each.invariant for each in story.said(True)]
    if story.outside:
        assert story.invariant in [each.invariant for each in story.said_outside(True)]


@pytest.mark.parametrize("story", silence.STORIES.values(), ids=silence.STORIES)
def test_a_story_of_silence(story: silence.Told) -> None:
    assert story.said(False) == []
    assert {each.invariant for each in story.said(True)} == {story.invariant}


@pytest.mark.parametrize("story", passing.STORIES.values(), ids=passing.STORIES)
def test_a_story_of_what_goes_by_itself(story: passing.Told) -> None:
    assert story.said(False) == []
    (said,) = story.said(True)
    assert said.startswith(f"{story.invariant}: ")
