"""Stories of what a log holds: what stands where, what is cut off, and what goes from its beginning."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs, replicas
from harness.probes import counted_as
from tests.histories.partitions.story import ALL, ONE, THREE, TWO, Tale, breaks, reaches

# -- one record at one place ---------------------------------------------------------------------------


@breaks(logs.SAME)
def two_have_different_records_of_one_epoch(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1")
    t.has(THREE, "a1 c1" if bad else "a1 c2")


@breaks(logs.SAME)
def a_number_is_given_to_one_record_only(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1 c1:7/1")
    t.has(THREE, "a1 b1 c1:7/2" if bad else "a1 b1 c1:7/1")


@breaks(logs.SAME)
def nothing_and_something_are_not_the_same(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 -1")
    t.has(THREE, "a1 b1" if bad else "a1 -1")


@breaks(logs.SAME)
def what_is_not_committed_is_compared_as_well(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.has(TWO, "a1 b1 c1 d1 e1 f1")
    t.has(THREE, "a1 b1 c1 d1 e1 g1" if bad else "a1 b1 c1 d1 e1 f1")


@breaks(logs.ONCE)
def a_number_comes_twice(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1", 2)
    t.has(ONE, f"a1:7/0 b1:7/1 c1:7/{1 if bad else 2}")


@breaks(logs.ONCE)
def a_number_is_passed_over_and_comes_later(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/5", 2)
    t.has(ONE, f"a1:7/0 b1:7/5 c1:7/{3 if bad else 6}")


@breaks(logs.ONCE)
def the_first_of_all_producers_numbers_its_records_as_well(t: Tale, bad: bool) -> None:
    t.opens("a1:0/0 b1:8/0", 2)
    t.has(ONE, f"a1:0/0 b1:8/0 c1:0/{0 if bad else 1}")


@breaks(logs.ONCE)
def what_was_cut_off_may_be_written_again_and_once(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.has(TWO, "a1:7/0 b1:7/1")
    t.has(TWO, "a1:7/0")
    t.has(TWO, f"a1:7/0 b2:7/{0 if bad else 1}")


@breaks(logs.ONCE)
def who_came_when_the_records_of_a_producer_had_gone_knows_nothing_of_it(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1 c1", 3, isr=(ONE, THREE))
    held, start = ("b1:7/1 c1", 1) if bad else ("c1", 2)
    t.has(TWO, held, start=start)
    t.has(TWO, f"{held} d1:7/0")
    t.has(ONE, "a1:7/0 b1:7/1 c1 d1:7/0")


@breaks(logs.ONCE)
def who_is_taken_for_a_new_producer_goes_on_from_there(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1 c1:7/2 d1", 4, isr=(ONE, THREE))
    t.has(TWO, "d1", start=3)
    t.has(TWO, "d1 e1:7/0")
    t.has(TWO, "d1 e1:7/0 f1:7/1")
    t.has(ONE, f"a1:7/0 b1:7/1 c1:7/2 d1 e1:7/0 f1:7/1{' g1:7/1' if bad else ' g1:7/2'}")


# -- where a log begins --------------------------------------------------------------------------------


@breaks(logs.START)
def a_log_begins_earlier_than_it_did(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.has(TWO, "b1 c1", start=1)
    if bad:
        t.has(TWO, "a1 b1 c1", start=0, cut=False)
    t.has(TWO, "c1", start=2, hw=3)


@breaks(logs.RETIRED)
def what_is_not_committed_goes(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 1 if bad else 2)
    t.has(ONE, "c1", start=2)


@breaks(logs.RETIRED)
def a_follower_lets_go_of_what_is_not_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 1 if bad else 2)
    t.has(TWO, "c1", start=2)


@breaks(logs.RETIRED)
def who_had_let_go_of_what_was_committed_then_is_not_to_blame(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 3, (ONE, TWO))
    t.has(TWO, "c1 d1", start=2)
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.follows(TWO, THREE, 2)
    if bad:
        t.has(TWO, "d1", start=3)


@breaks(logs.RETIRED)
def who_leads_in_an_older_epoch_lets_go_of_what_he_likes(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 1, (ONE, TWO))
    t.has(THREE, "a1")
    if not bad:
        t.state(THREE, [THREE], 2)
        t.leads(THREE, 2, [THREE])
    t.has(ONE, "c1", start=2)


@breaks(replicas.IN_SYNC)
def who_begins_later_lacks_only_what_comes_then(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "" if bad else "c1", start=2)
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(replicas.IN_SYNC)
def what_came_and_went_between_two_looks_lacks_nobody(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.has(TWO, "a1 b1 c1 d1 e1")
    t.has(THREE, "a1 b1 c1 d1" if bad else "a1 b1 c1 d1 e1")
    t.has(ONE, "d1 e1", start=3, hw=5, cut=False)


@breaks(replicas.IN_SYNC)
def behind_what_came_and_went_all_is_compared(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1 c1 d1")
    t.has(THREE, "a1 b1 c1 d2" if bad else "a1 b1 c1 d1")
    t.has(ONE, "c1 d1", start=2, hw=4, cut=False)


@breaks(commitment.EXPOSED)
def what_is_not_known_is_still_in_its_place(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.has(TWO, "a1 b1 c1 d1")
    t.has(THREE, "a1 b1 c1 d1")
    t.has(ONE, "c1 d1", start=2, hw=4, cut=False)
    t.has(TWO, "a1 b1 c1 d1 e1", hw=5 if bad else 4)


@reaches(counted_as("log start advances"))
def the_beginning_of_a_log_goes(t: Tale, so: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.has(TWO, "b1 c1" if so else "a1 b1 c1 d1", start=1 if so else 0)


# -- where it is cut -----------------------------------------------------------------------------------


@breaks(logs.UNCUT)
def what_is_committed_is_cut_off(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2 if bad else 1)
    t.has(TWO, "a1")


@breaks(logs.UNCUT)
def something_else_takes_the_place_of_what_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2 if bad else 1)
    t.has(TWO, "a1 c2")


@breaks(logs.UNCUT)
def something_longer_takes_the_place_of_what_is_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2 if bad else 1)
    t.has(TWO, "a1 c2 d2")


@breaks(logs.UNCUT)
def a_log_is_shorter_and_nobody_cut_it(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2 if bad else 1)
    t.has(TWO, "a1", cut=False)


@breaks(logs.UNCUT)
def a_follower_starts_over_in_the_midst(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.has(TWO, "", start=1 if bad else 2, cut=True)


@breaks(logs.UNCUT)
def a_log_that_begins_later_is_cut(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2)
    t.has(TWO, "b1 c1", start=1)
    t.has(TWO, "" if bad else "b1", start=1)


@breaks(replicas.IN_SYNC)
def who_starts_over_lacks_what_comes_behind(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 3, (ONE, TWO))
    t.has(THREE, "a1 x0")
    t.has(THREE, "" if bad else "c1", start=2, cut=True)
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@reaches(counted_as("follower truncates"))
def a_follower_cuts_its_tail(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 1)
    t.has(TWO, "a1" if so else "a1 c2")
