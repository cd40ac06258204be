"""Stories of groups whose members share what there is to read, and take over from each other."""

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


# -- who owns what -------------------------------------------------------------------------------------


@violates(members.OWNED)
def two_members_are_given_one_partition(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0), (THERE, 0))
    t.share(3, 7, (HERE, NOWHERE))


@violates(members.OWNED)
def what_one_keeps_is_given_to_another(t: HistoryBuilder) -> None:
    t.share(2, 6, (HERE, 0))
    t.share(2, 7, goes_on=(HERE,))
    t.share(3, 7, (HERE, 0))


@violates(members.OWNED)
def what_one_had_in_a_generation_another_has_later_in_the_same(t: HistoryBuilder) -> None:
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
def one_member_is_told_the_same_twice(t: HistoryBuilder) -> None:
    t.share(2, 7, (HERE, 0))
    t.share(2, 7, (HERE, 0))


@legal_case
def nobody_says_in_which_generation(t: HistoryBuilder) -> None:
    t.share(2, NO_GENERATION, (HERE, 0))
    t.share(3, NO_GENERATION, (HERE, 0))


@legal_case
def two_readers_of_no_group(t: HistoryBuilder) -> None:
    t.assign(2, (HERE, 0))
    t.assign(3, (HERE, 0))


# -- what is left out ----------------------------------------------------------------------------------


@violates(members.PASSED)
def between_two_members_a_record_is_left_out(t: HistoryBuilder) -> None:
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
def what_somebody_of_no_group_has_read_is_left_out(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 1))
    t.lose(t.commits(2, 2))


@violates(members.PASSED)
def the_first_record_of_all_is_left_out(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.commit(2, 1)
    _read(t, 9, 0, "a")


@violates(members.PASSED)
def what_is_left_out_is_left_out_once(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.commit(2, 2)
    t.commit(2, 3)
    _read(t, 9, 0, "ab")


@violates(members.PASSED)
def who_takes_over_leaves_out_where_it_begins(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "ab")
    t.share(3, 2, (THERE, 1), (HERE, 2))
    t.commit(3, 3)
    _read(t, 9, 0, "abcd")


@violates(members.PASSED)
def what_lay_where_another_began_is_left_out(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 2))
    t.share(3, 2, (HERE, 3))
    t.commit(3, 3)
    _read(t, 9, 0, "abcd")


@legal_case
def somebody_begins_further_back_later(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 2))
    _read(t, 2, 2, "c")
    t.commit(2, 3)
    t.share(3, 2, (HERE, 0))


@legal_case
def who_has_ended_commits_for_nobody(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.end(2)
    t.commit(2, 3)
    _read(t, 9, 0, "abcd")


@legal_case
def every_record_is_some_members(t: HistoryBuilder) -> None:
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
def the_first_of_a_group_begins_further_on(t: HistoryBuilder) -> None:
    _written(t)
    _read(t, 9, 0, "abcd")
    t.share(2, 1, (HERE, 2))
    _read(t, 2, 2, "c")
    t.commit(2, 3)


@legal_case
def a_refused_position_passes_over_nothing(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.fail(t.commits(2, 3))
    _read(t, 2, 0, "abcd")


@legal_case
def what_is_none_of_its_is_nobodys_position(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (THERE, 0))
    t.share(3, 1, (HERE, 0))
    t.commit(2, 3)
    t.commit(8, 4)
    _read(t, 9, 0, "abcd")


@legal_case
def a_member_moves_on_purpose(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    t.seek(2, 2)
    _read(t, 2, 2, "cd")
    t.commit(2, 4)
    t.seek(2, 0)
    t.commit(2, 0)
    _read(t, 9, 0, "abcd")


@violates(polls.NOTHING_MISSED)
def a_member_leaves_out_what_lies_between(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 9, 0, "abcd")
    _read(t, 2, 2, "cd")


# -- who goes back -------------------------------------------------------------------------------------


@violates(members.ONWARDS)
def who_takes_over_begins_before_what_was_committed(t: HistoryBuilder) -> None:
    _written(t)
    t.share(2, 1, (HERE, 0))
    _read(t, 2, 0, "abc")
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    _read(t, 3, 0, "ab")
    t.commit(3, 2)


@violates(members.ONWARDS)
def one_partition_of_two_goes_back(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE), (THERE, NOWHERE))
    t.commit(2, 3)
    t.commit(2, 3, where=THERE)
    t.share(2, 2, (HERE, NOWHERE), goes_on=(THERE,))
    t.commit(2, 4)
    t.commit(2, 2, where=THERE)


@violates(members.ONWARDS)
def nothing_of_what_else_was_committed_explains_it(t: HistoryBuilder) -> None:
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
def who_takes_over_goes_on(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 3)
    t.commit(3, 5)


@legal_case
def somebody_who_is_no_member_puts_it_back(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.commit(2, 3)
    t.share(2, 2)
    t.commit(8, 1)
    t.share(2, 3, (HERE, NOWHERE))
    t.commit(2, 1)


@legal_case
def a_commit_of_unknown_fate_puts_it_back(t: HistoryBuilder) -> None:
    t.share(2, 1, (HERE, NOWHERE))
    t.lose(t.commits(2, 1))
    t.commit(2, 3)
    t.share(3, 2, (HERE, NOWHERE))
    t.commit(3, 2)


@legal_case
def who_is_none_any_more_is_refused(t: HistoryBuilder) -> None:
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
