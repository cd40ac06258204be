"""Examples of groups whose members share partitions and take over from each other."""

from __future__ import annotations

from harness.checkers.records import members, polls
from harness.checkers.records.history import NO_GENERATION, NOWHERE
from tests.histories.records.examples import legal_case, violates
from tests.histories.records.history_builder import HERE, HistoryBuilder

THERE = "t-1"


def _written(t: HistoryBuilder, where: str = HERE) -> None:
    for offset, value in enumerate("abcd"):
        t.write(1, value + where[2:], offset, where=where)


def _read(t: HistoryBuilder, client: int, start: int, values: str, where: str = HERE) -> None:
    t.read(client, start, *(value + where[2:] for value in values), where=where)


# -- ownership -----------------------------------------------------------------------------------------


@violates(members.OWNED)
def partition_is_assigned_to_two_members(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0), (THERE, 0))
    t.share(3, 7, (HERE, NOWHERE))


@violates(members.OWNED)
def kept_partition_is_assigned_to_another_member(t: HistoryBuilder) -> None:
    t.share(2, 6, (HERE, 0))
    t.share(2, 7, goes_on=(HERE,))
    t.share(3, 7, (HERE, 0))


@violates(members.OWNED)
def partition_changes_its_owner_within_a_generation(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0))
    t.end(2)
    t.share(3, 7, (HERE, 0))


@legal_case
def members_of_one_generation_share(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0))
    t.share(3, 7, (THERE, 0))
    t.share(2, 8, (THERE, 0))
    t.share(3, 8, (HERE, 0))


@legal_case
def assignment_is_reported_twice(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0))
    t.share(2, 7, (HERE, 0))


@legal_case
def unknown_generations_are_not_compared(t: HistoryBuilder) -> None:
    t.share(2, NO_GENERATION, (HERE, 0))
    t.share(3, NO_GENERATION, (HERE, 0))


@legal_case
def two_readers_of_no_group(t: HistoryBuilder) -> None:
    t.assign(2, (HERE, 0))
    t.assign(3, (HERE, 0))


# -- skipped records -----------------------------------------------------------------------------------


@violates(members.PASSED)
def record_is_skipped_between_two_members(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "ab")
    t.commit(2, 2)
    t.share(3, 2, (HERE, 3))
    _read(t, 3, 3, "d")
    t.commit(3, 4)
    _read(t, 9, 0, "abcd")


@violates(members.PASSED)
def more_is_committed_than_was_read(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "ab")
    t.commit(2, 3)
    _read(t, 2, 2, "cd")


@violates(members.PASSED)
def record_read_outside_the_group_is_skipped(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 1))
    t.lose(t.commits(2, 2))


@violates(members.PASSED)
def first_record_is_skipped(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.commit(2, 1)
    _read(t, 9, 0, "a")


@violates(members.PASSED)
def skipped_record_is_reported_once(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.commit(2, 2)
    t.commit(2, 3)
    _read(t, 9, 0, "ab")


@violates(members.PASSED)
def new_owner_skips_its_first_record(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "ab")
    t.share(3, 2, (THERE, 1), (HERE, 2))
    t.commit(3, 3)
    _read(t, 9, 0, "abcd")


@violates(members.PASSED)
def record_at_the_start_of_another_member_is_skipped(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 2))
    t.share(3, 2, (HERE, 3))
    t.commit(3, 3)
    _read(t, 9, 0, "abcd")


@legal_case
def later_member_begins_further_back(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 2))
    _read(t, 2, 2, "c")
    t.commit(2, 3)
    t.share(3, 2, (HERE, 0))


@legal_case
def ended_member_commits_for_no_group(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.end(2)
    t.commit(2, 3)
    _read(t, 9, 0, "abcd")


@legal_case
def every_record_is_read_by_a_member(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "abc")
    t.commit(2, 2)
    t.share(2, 2)
    t.share(3, 2, (HERE, 2))
    _read(t, 3, 2, "cd")
    t.commit(3, 4)
    _read(t, 9, 0, "abcd")


@legal_case
def first_of_a_group_begins_further_on(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 2))
    _read(t, 2, 2, "c")
    t.commit(2, 3)


@legal_case
def refused_commit_skips_nothing(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.fail(t.commits(2, 3))
    _read(t, 2, 0, "abcd")


@legal_case
def commit_of_an_unassigned_partition_does_not_count(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (THERE, 0))
    t.share(3, 1, (HERE, 0))
    t.commit(2, 3)
    t.commit(8, 4)
    _read(t, 9, 0, "abcd")


@legal_case
def member_moves_on_purpose(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.seek(2, 2)
    _read(t, 2, 2, "cd")
    t.commit(2, 4)
    t.seek(2, 0)
    t.commit(2, 0)
    _read(t, 9, 0, "abcd")


@violates(polls.NOTHING_MISSED)
def member_skips_records_before_its_commit(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 9, 0, "abcd")
    _read(t, 2, 2, "cd")


# -- decreasing offsets --------------------------------------------------------------------------------


@violates(members.ONWARDS)
def new_owner_begins_below_the_committed_offset(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "abc")
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    _read(t, 3, 0, "ab")
    t.commit(3, 2)


@violates(members.ONWARDS)
def offset_of_one_of_two_partitions_decreases(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE), (THERE, NOWHERE))
    t.commit(2, 3)
    t.commit(2, 3, where=THERE)
    t.share(2, 2, (HERE, NOWHERE), goes_on=(THERE,))
    t.commit(2, 4)
    t.commit(2, 2, where=THERE)


@violates(members.ONWARDS)
def no_other_commit_explains_the_decrease(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.commit(8, 1)
    t.commit(2, 3)
    t.fail(t.commits(8, 0))
    t.commit(8, 4)
    t.commit(8, 0, where=THERE)
    t.commit(8, 0, group="other")
    t.look(9, 4)
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 2)
    t.commit(8, 0)


@legal_case
def new_owner_continues(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 3)
    t.commit(3, 5)


@legal_case
def client_outside_the_group_resets_the_offset(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.commit(2, 3)
    t.share(2, 2)
    t.commit(8, 1)
    t.share(2, 3, (HERE, NOWHERE))
    t.commit(2, 1)


@legal_case
def commit_with_an_unknown_outcome_resets_the_offset(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.lose(t.commits(2, 1))
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 2)


@legal_case
def former_member_is_refused(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 3)
    t.fail(t.commits(2, 1))
    t.lose(t.commits(2, 2))


@legal_case
def two_commit_at_the_same_time(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    one = t.commits(2, 3)
    two = t.commits(2, 1)
    t.done(one)
    t.done(two)
