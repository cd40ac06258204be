"""Examples of allowed losses: DeleteRecords requests, lost disks, and unclean elections."""

from __future__ import annotations

from harness.checkers.records import groups, lost, members, polls, values
from harness.checkers.records.history import NOWHERE, POSITIONS
from tests.histories.records.examples import legal_case, violates
from tests.histories.records.history_builder import HERE, HistoryBuilder

THERE = "t-1"


def _written(t: HistoryBuilder, values: str = "abcd", first: int = 0) -> None:
    for offset, value in enumerate(values, start=first):
        t.write(1, value, offset)


# -- DeleteRecords requests ----------------------------------------------------------------------------


@legal_case
def deleted_record_is_not_found(t: HistoryBuilder) -> None:
    t.complete = True
    _written(t)
    t.trim(2)
    t.read(2, 0, end=2)
    t.read(2, 2, "c", "d")


@legal_case
def deleted_record_remains_for_a_while(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.read(2, 0, "a", "b", "c", "d")
    t.read(3, 1, "b")
    t.poll(4, (2, "c"), (3, "d"), span=(0, 4))


@legal_case
def record_at_an_unknown_offset_may_be_deleted(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))
    t.trim(1)
    t.poll(2, span=(0, 1))


@violates(lost.KEPT)
def more_than_the_deleted_records_is_lost(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(lost.KEPT)
def larger_of_two_deletions_counts(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(2)
    t.trim(1)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(lost.SEEN)
def later_record_is_not_deleted(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 0)
    t.trim(1)
    t.ack(t.send(1, "b"))


@violates(lost.KEPT)
def deletion_in_another_partition(t: HistoryBuilder) -> None:
    _written(t)
    t.trim(4, THERE)
    t.poll(2, (3, "d"), span=(0, 4))


@violates(polls.NOTHING_MISSED)
def consumer_skips_a_record_that_is_deleted_later(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.poll(3, (1, "b"), (2, "c"), span=(0, 3))
    t.trim(2)


@violates(polls.NOTHING_MISSED)
def consumer_skips_the_first_remaining_record(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.trim(2)
    t.poll(3, (3, "d"), span=(0, 4))


@legal_case
def consumer_continues_at_the_log_start(t: HistoryBuilder) -> None:
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.read(3, 0, "a")
    t.trim(3)
    t.read(3, 3, "d")


@legal_case
def group_skips_deleted_records(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.trim(2)
    t.read(2, 2, "c")
    t.commit(2, 3)


@violates(members.PASSED)
def group_skips_more_than_the_deleted_records(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.trim(1)
    t.read(2, 2, "c")
    t.commit(2, 3)


@violates(members.PASSED)
def group_skips_records_that_are_deleted_later(t: HistoryBuilder) -> None:
    _written(t)
    t.read(9, 0, "a", "b", "c", "d")
    t.share(2, 1, (HERE, 0))
    t.read(2, 2, "c")
    t.commit(2, 3)
    t.trim(2)


# -- recorded losses -----------------------------------------------------------------------------------


@legal_case
def undone_records_are_replaced(t: HistoryBuilder) -> None:
    t.complete = True
    _written(t)
    t.read(2, 0, "a", "b", "c", "d")
    t.undo()
    t.write(1, "e", 2)
    t.read(3, 0, "a", "b", "e")


@legal_case
def consumer_of_undone_records_has_no_position(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a", "b", "c", "d")
    t.seek(3, 4)
    t.undo()
    t.read(2, 1, "b")
    t.read(3, 0, "a")


@legal_case
def undone_record_may_be_written_twice(t: HistoryBuilder) -> None:
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
def record_sent_after_undone_is_written_twice(t: HistoryBuilder) -> None:
    t.undo()
    t.write(1, "a", 0, producer=1)
    t.read(2, 0, "a", "a")


@violates(lost.KEPT)
def record_acknowledged_after_undone_is_lost(t: HistoryBuilder) -> None:
    _written(t)
    t.undo()
    t.write(1, "e", 2)
    t.read(2, 0, "a", "b", end=3)


@violates(lost.KEPT)
def record_sent_before_and_acknowledged_after_undone_is_lost(t: HistoryBuilder) -> None:
    call = t.send(1, "a")
    t.undo()
    t.ack(call, 0)
    t.read(2, 0, end=1)


@violates(lost.KEPT)
def undone_in_another_partition(t: HistoryBuilder) -> None:
    _written(t)
    t.undo(THERE)
    t.read(2, 0, "a", "b", end=4)


@violates(values.IN_TIME)
def undone_in_another_partition_does_not_excuse_the_order(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(2, "c", 5)
    t.undo(THERE)
    t.lose(t.send(1, "b"))
    t.read(3, 0, "a")
    t.poll(3, (3, "b"))


@violates(polls.FORWARD)
def consumer_goes_back_after_undone(t: HistoryBuilder) -> None:
    _written(t)
    t.undo()
    t.read(2, 0, "a", "b")
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def consumer_of_another_partition_goes_back(t: HistoryBuilder) -> None:
    _written(t)
    t.assign(2, (HERE, 0), (THERE, 0))
    t.read(2, 0, "a", "b")
    t.assign(2, goes_on=(HERE, THERE))
    t.undo(THERE)
    t.read(2, 1, "b")


@violates(groups.REMEMBERED)
def undone_records_do_not_excuse_a_lost_offset(t: HistoryBuilder) -> None:
    _written(t)
    t.commit(2, 3)
    t.undo()
    t.look(2, NOWHERE)


@legal_case
def undone_offsets_excuse_a_lost_offset(t: HistoryBuilder) -> None:
    _written(t)
    t.commit(2, 2)
    t.commit(2, 3)
    t.look(2, NOWHERE)
    t.undo(f"{POSITIONS}1")
    t.look(2, 2)


@violates(groups.REMEMBERED)
def offset_committed_after_undone_is_lost(t: HistoryBuilder) -> None:
    t.commit(2, 2)
    t.undo(f"{POSITIONS}1")
    t.commit(2, 3)
    t.undo()
    t.look(2, NOWHERE)


@violates(lost.KEPT)
def undone_offsets_do_not_excuse_a_lost_record(t: HistoryBuilder) -> None:
    _written(t)
    t.undo(f"{POSITIONS}0")
    t.read(2, 0, "a", "b", end=4)
