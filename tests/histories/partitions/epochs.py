"""Stories of what a log knows of the leaders that wrote it."""

from __future__ import annotations

from harness.checkers.partitions.logs import EPOCHS
from tests.histories.partitions.story import ONE, THREE, TWO, Tale, breaks


@breaks(EPOCHS)
def an_epoch_begins_too_late(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2 c2", told=((1, 0), (2, 2 if bad else 1)))


@breaks(EPOCHS)
def an_epoch_begins_too_early(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1 c2", told=((1, 0), (2, 1 if bad else 2)))


@breaks(EPOCHS)
def the_first_epoch_is_another_one(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2", told=((0 if bad else 1, 0), (2, 1)))


@breaks(EPOCHS)
def an_epoch_begins_behind_the_end(t: Tale, bad: bool) -> None:
    """Where it ends one may begin, in which nothing is written yet."""
    t.opens("a1", 1)
    t.has(TWO, "a1 b1", told=((1, 0), (2, 3 if bad else 2)))


@breaks(EPOCHS)
def an_epoch_outlives_what_was_cut_off(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.has(TWO, "a1 b1 c2")
    t.has(TWO, "a1 b1", told=((1, 0), (2, 2)) if bad else ((1, 0),))


@breaks(EPOCHS)
def whoever_leads_since_it_was_cut_has_begun_an_epoch(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.has(TWO, "a1 b1 c2")
    t.blind = True
    t.has(TWO, "a1 b1", told=((1, 0), (3, 2)))
    t.blind = bad
    t.leads(TWO, 3)
    t.blind = False
    if bad:
        t.follows(TWO, ONE, 3)


@breaks(EPOCHS)
def two_epochs_begin_before_the_log(t: Tale, bad: bool) -> None:
    t.opens("a1 b2 c2 d3", 4)
    t.has(TWO, "c2 d3", start=2, told=((1, 0), (2, 1), (3, 3)) if bad else ((2, 1), (3, 3)))


@breaks(EPOCHS)
def an_epoch_begins_where_the_log_does(t: Tale, bad: bool) -> None:
    """What was before that nobody can ask for."""
    t.opens("a1 b1 c2 d3", 4)
    t.has(TWO, "c2 d3", start=2, told=((1 if bad else 2, 2), (3, 3)))


@breaks(EPOCHS)
def one_from_before_the_log_is_not_looked_for(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d3", 4)
    t.has(TWO, "c1 d3", start=2, told=((1, 1), (3, 3)) if not bad else ((0, 1), (3, 3)))


@breaks(EPOCHS)
def the_last_epoch_is_not_known(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2", told=((1, 0),) if bad else ((1, 0), (2, 1)))


@breaks(EPOCHS)
def one_that_has_not_written_yet_is_none_of_the_records(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2", told=((1, 0), (2, 2)) if bad else ((1, 0), (2, 1), (3, 2)))


@breaks(EPOCHS)
def an_epoch_between_two_is_not_known(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2 c3", told=((1, 0), (3, 2)) if bad else ((1, 0), (2, 1), (3, 2)))


@breaks(EPOCHS)
def no_epoch_is_known(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(THREE, "a1 b1", told=() if bad else ((1, 0),))


@breaks(EPOCHS)
def the_first_epoch_is_not_known(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2", told=((2, 1),) if bad else ((1, 0), (2, 1)))


@breaks(EPOCHS)
def a_log_of_one_record_that_went_is_not_asked(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b2" if bad else "", start=0 if bad else 1, told=((1, 0),))


@breaks(EPOCHS)
def a_log_that_is_closed_is_not_asked(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.shelf(TWO).closed = not bad
    t.has(TWO, "a1 b2", told=())


@breaks(EPOCHS)
def of_two_epochs_both_begin_before_the_log(t: Tale, bad: bool) -> None:
    t.opens("a1 b2 c2 d2", 4)
    t.has(TWO, "c2 d2", start=2, told=((1, 0), (2, 1 if bad else 2)))
