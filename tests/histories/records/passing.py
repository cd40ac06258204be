"""Stories of consumers that go past a place: by a poll, or by where they go on after it."""

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
def a_reader_goes_on_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def a_reader_begins_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 1))
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def a_reader_seeks_a_place_and_goes_on_behind_it(t: HistoryBuilder) -> None:
    _written(t)
    t.seek(2, 1)
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def a_reader_that_keeps_a_partition_goes_past_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(2, (THERE, 0), goes_on=(HERE,))
    t.read(2, 2, "c")


@legal_case
def a_reader_seeks_a_place_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.seek(2, 2)
    t.poll(2, (2, "c"))


@legal_case
def a_reader_is_put_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.assign(2, (HERE, NOWHERE))
    t.poll(2, (2, "c"))


@legal_case
def another_reader_begins_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.poll(3, (2, "c"))


@legal_case
def a_reader_dies_and_its_successor_begins_behind_what_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.end(2)
    t.poll(2, (2, "c"))


@legal_case
def a_reader_is_put_at_an_unknown_place_in_what_it_has(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c")
    t.assign(2, (HERE, NOWHERE), goes_on=(HERE,))
    t.read(2, 1, "b")


# -- what stands elsewhere, too --------------------------------------------------------------------------


@violates(lost.KEPT)
def a_value_is_read_elsewhere_and_not_where_it_was_acknowledged(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(1, "b", 2)
    t.poll(2, (0, "a"), (2, "b"))


@legal_case
def a_value_is_read_elsewhere_and_nobody_has_come_to_where_it_was_acknowledged(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 1)
    t.read(2, 0, "a")


# -- what is let go --------------------------------------------------------------------------------------


@violates(lost.KEPT)
def a_reader_goes_past_what_is_let_go_later(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (1, "b"), (2, "c"), span=(0, 3))
    t.trim(1)


@legal_case
def a_reader_goes_past_what_was_let_go_before_it_was_there(t: HistoryBuilder) -> None:
    t.trim(1)
    _written(t)
    t.poll(2, (1, "b"), (2, "c"), span=(0, 3))


@legal_case
def a_reader_goes_on_behind_what_was_let_go_and_nobody_has_read(t: HistoryBuilder) -> None:
    _written(t)
    t.poll(2, (0, "a"))
    t.trim(2)
    t.poll(2, (2, "c"))


@violates(lost.KEPT)
def a_reader_goes_on_behind_more_than_was_let_go(t: HistoryBuilder) -> None:
    _written(t, "abcd")
    t.poll(2, (0, "a"))
    t.trim(2)
    t.poll(2, (3, "d"))


# -- what the order of a log must not pass for -----------------------------------------------------------


@violates(polls.FORWARD)
def one_poll_has_what_does_not_lie_where_it_was(t: HistoryBuilder) -> None:
    _written(t, "ab")
    t.seek(2, 0)
    t.poll(2, (0, "a"), (1, "b"), span=(2, 2))


@violates(values.UPWARDS)
def one_client_is_told_of_two_places_at_one_moment(t: HistoryBuilder) -> None:
    t.write(1, "a", 2)
    call = t.send(1, "b")
    t.step = 0
    t.ack(call, 3)
    t.write(1, "c", 0)
