"""Stories of what goes from the beginning of a log: for its age, for its size, because somebody wished it; all records
are of time 0."""

from __future__ import annotations

from harness.checkers.partitions import keeper
from harness.mutants.bank.partitions.story import ONE, TWO, Tale, breaks


@breaks(keeper.YOUNG)
def what_is_old_enough_goes_and_nothing_younger(t: Tale, bad: bool) -> None:
    t.lasts(ms=500)
    t.opens("a1 b1 c1", 3)
    t.member(ONE).now = 500 if bad else 501
    t.has(ONE, "b1 c1", start=1)


@breaks(keeper.YOUNG)
def what_is_too_much_goes_and_nothing_more(t: Tale, bad: bool) -> None:
    t.lasts(size=100)
    t.opens("a1 b1 c1", 3)
    t.shelf(ONE).size = 99 if bad else 100
    t.has(ONE, "b1 c1", start=1)


@breaks(keeper.YOUNG)
def what_is_young_goes_where_it_may_be_too_much(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000, size=-1 if bad else 100)
    t.opens("a1 b1 c1", 3)
    t.has(ONE, "b1 c1", start=1)


@breaks(keeper.YOUNG)
def what_was_wished_away_goes_and_no_more(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    t.wishes(ONE, 1 if bad else 2)
    t.has(ONE, "c1", start=2)


@breaks(keeper.YOUNG)
def a_smaller_wish_takes_none_back(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.wishes(ONE, 2)
    t.wishes(ONE, 1)
    t.has(ONE, "c1", start=2)


@breaks(keeper.YOUNG)
def a_wish_is_about_what_is_committed(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 1 if bad else 2)
    t.wishes(ONE, 2)
    t.knows(ONE, 3)
    t.has(ONE, "c1", start=2)


@breaks(keeper.YOUNG)
def only_who_leads_is_asked_to_let_go(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    t.wishes(TWO if bad else ONE, 2)
    t.has(ONE, "c1", start=2)


@breaks(keeper.YOUNG)
def what_the_leader_let_go_of_may_go_elsewhere_and_no_more(t: Tale, bad: bool) -> None:
    t.lasts(ms=500)
    t.opens("a1 b1 c1", 3)
    t.has(ONE, "b1 c1", start=1)
    t.member(TWO).now = 400
    t.has(TWO, "c1" if bad else "b1 c1", start=2 if bad else 1)


@breaks(keeper.REPLACED)
def nothing_is_missing_in_a_log_that_nobody_cleans(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 . c1" if bad else "a1 b1 c1")
