"""Examples of consumers that pass an offset, within a poll or between two."""

from __future__ import annotations

from harness.checkers.records import lost, polls, values
from harness.checkers.records.history import NOWHERE
from tests.histories.records.examples import legal_case, violates
from tests.histories.records.history_builder import HERE, HistoryBuilder

THERE = "t-1"


def _written(t: HistoryBuilder, values: str = "abc") -> None:
    for offset, value in enumerate(values):
        t.write(1, value, offset)


# -- from one poll to the next ---------------------------------------------------------------------------


@violates(lost.KEPT)
def consumer_continues_after_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def assigned_consumer_skips_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 1))
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def consumer_skips_the_record_at_its_seek(t: HistoryBuilder) -> None:
    _written(t)
    t.seek(2, 1)
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def consumer_skips_an_unread_record_in_a_kept_partition(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(2, (THERE, 0), goes_on=(HERE,))
    t.read(2, 2, "c")


@legal_case
def consumer_seeks_past_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.seek(2, 2)
    t.poll(2, (2, "c"))


@legal_case
def consumer_is_assigned_past_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.assign(2, (HERE, NOWHERE))
    t.poll(2, (2, "c"))


@legal_case
def another_consumer_begins_after_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.poll(3, (2, "c"))


@legal_case
def successor_begins_after_an_unread_record(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.end(2)
    t.poll(2, (2, "c"))


@legal_case
def consumer_is_assigned_at_an_unknown_offset(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c")
    t.assign(2, (HERE, NOWHERE), goes_on=(HERE,))
    t.read(2, 1, "b")


# -- values at other offsets -----------------------------------------------------------------------------


@violates(lost.KEPT)
def value_is_read_only_at_another_offset(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(1, "b", 2)
    t.poll(2, (0, "a"), (2, "b"))


@legal_case
def value_is_read_at_another_offset_and_its_own_is_not_passed(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 1)
    t.read(2, 0, "a")


# -- deleted records -------------------------------------------------------------------------------------


@violates(lost.KEPT)
def consumer_passes_a_record_that_is_deleted_later(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (1, "b"), (2, "c"), span=(0, 3))
    t.trim(1)


@legal_case
def consumer_passes_a_record_that_was_deleted_before_its_write(t: HistoryBuilder) -> None:
    t.trim(1)
    _written(t)
    t.poll(2, (1, "b"), (2, "c"), span=(0, 3))


@legal_case
def consumer_continues_after_deleted_unread_records(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.trim(2)
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def consumer_continues_after_more_than_the_deleted_records(t: HistoryBuilder) -> None:
    _written(t, "abcd")
    t.poll(2, (0, "a"))
    t.trim(2)
    t.poll(2, (3, "d"))


# -- histories that the order of a log cannot prove ------------------------------------------------------


@violates(polls.FORWARD)
def poll_has_records_outside_its_span(t: HistoryBuilder) -> None:
    _written(t, "ab")
    t.seek(2, 0)
    t.poll(2, (0, "a"), (1, "b"), span=(2, 2))


@violates(values.UPWARDS)
def client_gets_two_acknowledgements_at_one_instant(t: HistoryBuilder) -> None:
    t.write(1, "a", 2)
    call = t.send(1, "b")
    t.step = 0
    t.ack(call, 3)
    t.write(1, "c", 0)
