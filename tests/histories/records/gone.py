"""Stories of records that may be gone: what somebody let go, and what was lost with a disk or an election."""

from __future__ import annotations

from harness.checkers.records import groups, lost, members, polls, values
from harness.checkers.records.history import NOWHERE, POSITIONS
from tests.histories.records.examples import legal_case, violates
from tests.histories.records.history_builder import HERE, HistoryBuilder

THERE = "t-1"


def _written(t: HistoryBuilder, values: str = "abcd", first: int = 0) -> None:
    for offset, value in enumerate(values, start=first):
        t.write(1, value, offset)


# -- somebody lets them go -----------------------------------------------------------------------------


@legal_case
def what_was_let_go_is_not_found(t: HistoryBuilder) -> None:
    t.complete = True
    _written(t)
    t.trim(2)
    t.read(2, 0, end=2)
    t.read(2, 2, "c", "d")


@legal_case
def what_was_let_go_is_there_for_a_while(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.read(2, 0, "a", "b", "c", "d")
    t.read(3, 1, "b")
    t.poll(4, (2, "c"), (3, "d"), span=(0, 4))


@legal_case
def what_is_of_unknown_place_and_sent_before_may_have_gone(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))
    t.trim(1)
    t.poll(2, span=(0, 1))


@violates(lost.KEPT)
def more_is_gone_than_was_let_go(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(lost.KEPT)
def of_two_wishes_the_higher_one_counts_and_no_more(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.trim(1)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(lost.SEEN)
def what_is_sent_later_does_not_go_with_it(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 0)
    t.trim(1)
    t.ack(t.send(1, "b"))


@violates(lost.KEPT)
def it_goes_from_another_partition(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(4, THERE)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(polls.NOTHING_MISSED)
def a_reader_misses_what_is_let_go_later(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.poll(3, (1, "b"), (2, "c"), span=(0, 3))
    t.trim(2)


@violates(polls.NOTHING_MISSED)
def a_reader_misses_what_stands_where_the_log_begins(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.trim(2)
    t.poll(3, (3, "d"), span=(0, 4))


@legal_case
def a_reader_goes_on_where_the_log_begins(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.read(3, 0, "a")
    t.trim(3)
    t.read(3, 3, "d")


@legal_case
def a_group_passes_over_what_was_let_go(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.trim(2)
    t.read(2, 2, "c")
    t.commit(2, 3)


@violates(members.PASSED)
def a_group_passes_over_more_than_was_let_go(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.trim(1)
    t.read(2, 2, "c")
    t.commit(2, 3)


@violates(members.PASSED)
def a_group_passes_over_what_is_let_go_later(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.read(2, 2, "c")
    t.commit(2, 3)
    t.trim(2)


# -- they are lost, and that is known ------------------------------------------------------------------


@legal_case
def what_is_undone_is_gone_and_others_stand_there(t: HistoryBuilder) -> None:
    t.complete = True
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.undo()
    t.write(1, "e", 2)
    t.read(3, 0, "a", "b", "e")


@legal_case
def who_had_read_what_is_undone_stands_nowhere(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a", "b", "c", "d")
    t.seek(3, 4)
    t.undo()
    t.read(2, 1, "b")
    t.read(3, 0, "a")


@legal_case
def what_is_undone_may_be_sent_again_and_stand_twice(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "b", producer=1))
    call = t.send(1, "a", producer=1)
    t.read(2, 0, "b", "a")
    t.undo()
    t.ack(call, 1)
    t.read(2, 0, "a", "a", "b")


@violates(values.ONE)
def two_values_at_one_offset_after_it_was_undone(t: HistoryBuilder) -> None:
    _written(t)
    t.undo()
    t.read(2, 0, "a", "b")
    t.read(3, 0, "b")


@violates(values.ONCE)
def what_is_sent_after_it_was_undone_stands_twice(t: HistoryBuilder) -> None:
    t.undo()
    t.write(1, "a", 0, producer=1)
    t.read(2, 0, "a", "a")


@violates(lost.KEPT)
def what_is_acknowledged_after_it_was_undone_is_lost(t: HistoryBuilder) -> None:
    _written(t)
    t.undo()
    t.write(1, "e", 2)
    t.read(2, 0, "a", "b", end=3)


@violates(lost.KEPT)
def what_was_sent_before_and_acknowledged_after_it_was_undone_is_lost(t: HistoryBuilder) -> None:
    call = t.send(1, "a")
    t.undo()
    t.ack(call, 0)
    t.read(2, 0, end=1)


@violates(lost.KEPT)
def it_was_undone_in_another_partition(t: HistoryBuilder) -> None:
    _written(t)
    t.undo(THERE)
    t.read(2, 0, "a", "b", end=4)


@violates(values.IN_TIME)
def it_was_undone_in_another_partition_and_stands_before_what_was_there(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(2, "c", 5)
    t.undo(THERE)
    t.lose(t.send(1, "b"))
    t.read(3, 0, "a")
    t.poll(3, (3, "b"))


@violates(polls.FORWARD)
def who_reads_after_it_was_undone_goes_back(t: HistoryBuilder) -> None:
    _written(t)
    t.undo()
    t.read(2, 0, "a", "b")
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def who_is_elsewhere_goes_back(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0), (THERE, 0))
    t.read(2, 0, "a", "b")
    t.assign(2, goes_on=(HERE, THERE))
    t.undo(THERE)
    t.read(2, 1, "b")


@violates(groups.REMEMBERED)
def that_records_are_undone_excuses_no_forgotten_position(t: HistoryBuilder) -> None:
    _written(t)
    t.commit(2, 3)
    t.undo()
    t.look(2, NOWHERE)


@legal_case
def that_positions_are_undone_excuses_it(t: HistoryBuilder) -> None:
    _written(t)
    t.commit(2, 2)
    t.commit(2, 3)
    t.look(2, NOWHERE)
    t.undo(f"{POSITIONS}1")
    t.look(2, 2)


@violates(groups.REMEMBERED)
def a_position_is_committed_after_they_were_undone_and_forgotten(t: HistoryBuilder) -> None:
    t.commit(2, 2)
    t.undo(f"{POSITIONS}1")
    t.commit(2, 3)
    t.undo()
    t.look(2, NOWHERE)


@violates(lost.KEPT)
def that_positions_are_undone_excuses_no_lost_record(t: HistoryBuilder) -> None:
    _written(t)
    t.undo(f"{POSITIONS}0")
    t.read(2, 0, "a", "b", end=4)
