"""For every promise of replication, stories by hand: those that keep it are legal, those that break it are said to."""

from __future__ import annotations

import pytest

from harness.probes import OF_PARTITIONS, counted_as
from tests.histories.partitions import STORIES, Told, cleaning, settled, shares


@pytest.mark.parametrize("told", STORIES.values(), ids=STORIES)
def test_a_story_is_judged_as_it_should_be(told: Told) -> None:
    for so in (False, True):
        invariant, what, counts = told.said(so)
        assert invariant == (told.breaks if so else ""), what
        if told.reaches:
            assert (told.reaches in counts) is so, counts


def test_every_situation_is_reached_by_a_story() -> None:
    assert {told.reaches for told in STORIES.values()} - {""} == {counted_as(probe.name) for probe in OF_PARTITIONS}


@pytest.mark.parametrize("spoilt", settled.SPOILT)
def test_unsettled_partitions_are_reported(spoilt: str) -> None:
    rest = settled.Rest()
    settled.SPOILT[spoilt](rest)
    assert (rest.said() == (None, None)) is (spoilt in settled.HARMLESS), rest.said()


@pytest.mark.parametrize(("deals", "gift", "right"), shares.STORIES.values(), ids=shares.STORIES)
def test_a_share_is_of_its_generation(deals: tuple[shares.Deal, ...], gift: shares.Gift, right: str) -> None:
    member, generation, share = gift
    what = f"{member} is given {share.decode()} in generation {generation} of g, whose leader has dealt it {right}"
    assert shares.said(deals, gift) == (what if right else "")


@pytest.mark.parametrize("story", cleaning.STORIES.values(), ids=cleaning.STORIES)
def test_records_that_compaction_may_remove(story: cleaning.Cleaned) -> None:
    invariant, what, _ = story.said()
    assert invariant == story.breaks, what


def test_no_objection_without_known_records() -> None:
    assert cleaning.nowhere() == ()
