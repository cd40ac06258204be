"""The leader epochs of a log, and their start offsets."""

from __future__ import annotations

from harness.checkers.partitions.logs import EPOCHS
from tests.histories.partitions.scenario import ONE, THREE, TWO, Scenario, breaks


@breaks(EPOCHS)
def epoch_begins_too_late(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2 c2", epochs=((1, 0), (2, 2 if bad else 1)))


@breaks(EPOCHS)
def epoch_begins_too_early(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1 c2", epochs=((1, 0), (2, 1 if bad else 2)))


@breaks(EPOCHS)
def first_epoch_is_wrong(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2", epochs=((0 if bad else 1, 0), (2, 1)))


@breaks(EPOCHS)
def epoch_begins_beyond_the_log_end(s: Scenario, bad: bool) -> None:
    """An epoch without records may begin at the log end."""
    s.begin("a1", 1)
    s.has(TWO, "a1 b1", epochs=((1, 0), (2, 3 if bad else 2)))


@breaks(EPOCHS)
def epoch_of_truncated_records_remains(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.has(TWO, "a1 b1 c2")
    s.has(TWO, "a1 b1", epochs=((1, 0), (2, 2)) if bad else ((1, 0),))


@breaks(EPOCHS)
def new_leader_has_begun_an_epoch_after_a_truncation(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.has(TWO, "a1 b1 c2")
    s.unchecked = True
    s.has(TWO, "a1 b1", epochs=((1, 0), (3, 2)))
    s.unchecked = bad
    s.leads(TWO, 3)
    s.unchecked = False
    if bad:
        s.follows(TWO, ONE, 3)


@breaks(EPOCHS)
def two_epochs_begin_before_the_log_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b2 c2 d3", 4)
    s.has(TWO, "c2 d3", start=2, epochs=((1, 0), (2, 1), (3, 3)) if bad else ((2, 1), (3, 3)))


@breaks(EPOCHS)
def epoch_begins_at_the_log_start(s: Scenario, bad: bool) -> None:
    """The log may have deleted the first records of the epoch."""
    s.begin("a1 b1 c2 d3", 4)
    s.has(TWO, "c2 d3", start=2, epochs=((1 if bad else 2, 2), (3, 3)))


@breaks(EPOCHS)
def epoch_from_before_the_log_start_is_compared(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d3", 4)
    s.has(TWO, "c1 d3", start=2, epochs=((1, 1), (3, 3)) if not bad else ((0, 1), (3, 3)))


@breaks(EPOCHS)
def last_epoch_is_missing(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2", epochs=((1, 0),) if bad else ((1, 0), (2, 1)))


@breaks(EPOCHS)
def epoch_without_records_is_not_that_of_the_last_record(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2", epochs=((1, 0), (2, 2)) if bad else ((1, 0), (2, 1), (3, 2)))


@breaks(EPOCHS)
def middle_epoch_is_missing(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2 c3", epochs=((1, 0), (3, 2)) if bad else ((1, 0), (2, 1), (3, 2)))


@breaks(EPOCHS)
def all_epochs_are_missing(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(THREE, "a1 b1", epochs=() if bad else ((1, 0),))


@breaks(EPOCHS)
def first_epoch_is_missing(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2", epochs=((2, 1),) if bad else ((1, 0), (2, 1)))


@breaks(EPOCHS)
def epochs_of_an_empty_log_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b2" if bad else "", start=0 if bad else 1, epochs=((1, 0),))


@breaks(EPOCHS)
def epochs_of_a_closed_log_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.log(TWO).closed = not bad
    s.has(TWO, "a1 b2", epochs=())


@breaks(EPOCHS)
def second_epoch_begins_before_the_log_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b2 c2 d2", 4)
    s.has(TWO, "c2 d2", start=2, epochs=((1, 0), (2, 1 if bad else 2)))
