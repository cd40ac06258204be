"""Stories of what goes from the beginning of a log: for its age, for its size, because somebody wished it; all records
are of time 0."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs
from replica.core.errors import ErrorCode
from tests.histories.partitions.story import ELSEWHERE, ONE, THREE, TWO, Tale, breaks


@breaks(logs.YOUNG)
def what_is_old_enough_goes_and_nothing_younger(t: Tale, bad: bool) -> None:
    t.lasts(ms=500)
    t.opens("a1 b1 c1", 3)
    t.member(ONE).now = 500 if bad else 501
    t.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def what_is_too_much_goes_and_nothing_more(t: Tale, bad: bool) -> None:
    t.lasts(size=100)
    t.opens("a1 b1 c1", 3)
    t.shelf(ONE).size = 99 if bad else 100
    t.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def what_is_young_goes_where_it_may_be_too_much(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000, size=-1 if bad else 100)
    t.opens("a1 b1 c1", 3)
    t.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def what_was_wished_away_goes_and_no_more(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    t.wishes(ONE, 1 if bad else 2)
    t.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def a_smaller_wish_takes_none_back(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.wishes(ONE, 2)
    t.wishes(ONE, 1)
    t.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def a_wish_is_about_what_is_committed(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 1 if bad else 2)
    t.wishes(ONE, 2)
    t.knows(ONE, 3)
    t.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def only_who_leads_is_asked_to_let_go(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    t.wishes(TWO if bad else ONE, 2)
    t.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def what_the_leader_let_go_of_may_go_elsewhere_and_no_more(t: Tale, bad: bool) -> None:
    t.lasts(ms=500)
    t.opens("a1 b1 c1", 3)
    t.has(ONE, "b1 c1", start=1)
    t.member(TWO).now = 400
    t.has(TWO, "c1" if bad else "b1 c1", start=2 if bad else 1)


@breaks(logs.YOUNG)
def who_holds_nothing_yet_is_asked_in_vain(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.wishes(ONE, 2)
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.wishes(ONE, 2)
    t.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def whose_disk_has_failed_is_asked_in_vain(t: Tale, bad: bool) -> None:
    t.lasts(ms=5_000)
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.wishes(ONE, 2)
    t.fails(ONE)
    t.wishes(ONE, 2)
    t.has(TWO, "c1", start=2)


@breaks(logs.REPLACED)
def nothing_is_missing_in_a_log_that_nobody_cleans(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 . c1" if bad else "a1 b1 c1")


@breaks(commitment.GONE_HERE)
def what_is_said_to_be_gone_is_gone_from_all(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.says_gone(ONE, 2, where=ELSEWHERE)
    for broker in (ONE, TWO) if bad else (ONE, TWO, THREE):
        t.has(broker, "c1", start=2)
    t.says_gone(ONE, 2)


@breaks(commitment.GONE_HERE)
def as_much_as_was_said_is_gone(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        t.has(broker, "c1", start=2)
    t.has(THREE, "b1 c1", start=1)
    t.says_gone(ONE, 2 if bad else 1)


@breaks(commitment.GONE_HERE)
def who_is_dead_is_not_waited_for(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.hears_of_the_end_of(ONE, TWO if bad else THREE)
    for broker in (ONE, TWO):
        t.has(broker, "c1", start=2)
    t.says_gone(ONE, 2)


@breaks(commitment.GONE_HERE)
def what_is_refused_says_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.says_gone(ONE, 2, ErrorCode.NONE if bad else ErrorCode.REQUEST_TIMED_OUT)


@breaks(commitment.GONE_HERE)
def who_does_not_lead_any_more_says_nothing(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.follows(ONE, TWO, 2)
    t.says_gone(ONE, 2)


@breaks(commitment.GONE_HERE)
def what_was_gone_and_a_disk_brings_back_was_gone(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        t.has(broker, "c1", start=2)
    t.has(THREE, "b1 c1", start=1)
    t.returns(THREE, "b1 c1" if bad else "c1", start=1 if bad else 2, how="power")
    t.returns(THREE, "a1 b1 c1", start=0, how="power")
    t.says_gone(ONE, 2)


@breaks(commitment.GONE_HERE)
def a_topic_of_the_same_name_is_another_one(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        t.has(broker, "c1", start=2)
    if not bad:
        t.topic(ONE, TWO, THREE, ident="2")
        t.anew(THREE)
        t.follows(THREE, ONE, 1)
    t.says_gone(ONE, 2)


@breaks(commitment.GONE_HERE)
def who_never_had_anything_has_nothing_left(t: Tale, bad: bool) -> None:
    t.topic(ONE, TWO, THREE)
    t.state(ONE, [ONE], 1)
    t.has(ONE, "a1 b1")
    t.leads(ONE, 1, [ONE])
    t.knows(ONE, 2)
    if bad:
        t.has(TWO, "a1")
    t.has(ONE, "b1", start=1)
    t.says_gone(ONE, 1)
