"""For every promise, histories by hand: those that keep it are legal, those that break it are said to break it."""

from __future__ import annotations

import pytest

from harness.checkers.store import judge
from harness.mutants.bank.stories import STORIES, Story


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_is_judged_as_it_should_be(story: Story) -> None:
    verdict = judge(story.history)
    if not story.broken:
        assert verdict.held, str(verdict)
    else:
        promises = [each.promise for each in verdict.store.broken] or [str(verdict.promise)]
        assert story.broken in promises, str(verdict)
