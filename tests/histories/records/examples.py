"""For every promise that brokers make, histories that keep it and histories that break it, each to be read by a person.

A story is a function that tells a `HistoryBuilder`; `violated` names the promise that it breaks, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from harness.checkers.records import groups, lost, polls, values
from harness.checkers.records.history import NOWHERE, History
from tests.histories.records.history_builder import HERE, HistoryBuilder

Build = Callable[[HistoryBuilder], None]


@frozen
class Example:
    name: str
    violated: str
    history: History


EXAMPLES: Final[dict[str, Example]] = {}


def legal_case(build: Build) -> Build:
    return _add(build, "")


def violates(invariant: str) -> Callable[[Build], Build]:
    return lambda build: _add(build, invariant)


def _add(build: Build, violated: str) -> Build:
    builder = HistoryBuilder()
    build(builder)
    name = build.__name__
    assert name not in EXAMPLES
    EXAMPLES[name] = Example(name, violated, builder.history())
    return build


# -- one value at an offset ----------------------------------------------------------------------------


@violates(values.ONE)
def two_readers_see_two_values_at_one_offset(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.lose(t.send(1, "b"))
    t.read(2, 0, "a")
    t.read(3, 0, "b")


@violates(values.ONE)
def two_writers_are_told_of_one_offset(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(2, "b")
    t.ack(one, 5)
    t.ack(two, 5)


@violates(values.ONE)
def a_reader_finds_another_value_than_was_acknowledged(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(2, "b")
    t.ack(one, 0)
    t.lose(two)
    t.read(3, 0, "b")


@legal_case
def one_offset_in_two_partitions(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 0, where="t-1")
    t.read(2, 0, "a")
    t.read(2, 0, "b", where="t-1")


@legal_case
def what_the_leader_alone_acknowledged_is_lost_and_its_offset_used_again(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, acks=1)
    t.write(1, "b", 0)
    t.read(2, 0, "b")


# -- one offset of a value -----------------------------------------------------------------------------


@violates(values.ONCE)
def an_idempotent_producers_value_stands_twice(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, producer=1)
    t.read(2, 0, "a", "a")


@violates(values.ONCE)
def it_is_acknowledged_at_one_offset_and_read_at_another(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, producer=1)
    t.read(2, 1, "a")


@legal_case
def a_producer_that_sends_again_may_write_twice(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 2)
    t.read(2, 0, "a", "a", "b")


# -- nothing that was not written ----------------------------------------------------------------------


@violates(values.SENT)
def a_value_comes_from_nowhere(t: HistoryBuilder) -> None:
    t.read(2, 0, "a")


@violates(values.THERE)
def a_value_is_in_another_partition(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a", where="t-1")


@violates(values.REFUSED)
def a_value_that_was_refused_is_read(t: HistoryBuilder) -> None:
    t.fail(t.send(1, "a"))
    t.read(2, 0, "a")


@violates(values.THERE)
def a_value_is_read_before_it_is_sent(t: HistoryBuilder) -> None:
    t.read(2, 0, "a")
    t.lose(t.send(1, "a"))


@legal_case
def a_value_is_read_before_it_is_acknowledged(t: HistoryBuilder) -> None:
    call = t.send(1, "a")
    t.read(2, 0, "a")
    t.ack(call, 0)


@legal_case
def a_value_of_unknown_fate_was_written(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a")


@legal_case
def a_value_of_unknown_fate_comes_late(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "late"))
    t.write(1, "b", 0)
    t.read(2, 0, "b")
    t.read(2, 1, "late")


@legal_case
def a_value_that_was_refused_is_not_there(t: HistoryBuilder) -> None:
    t.fail(t.send(1, "a"))
    t.write(1, "b", 0)
    t.read(2, 0, "b")


# -- what was acknowledged -----------------------------------------------------------------------------


@violates(lost.KEPT)
def an_acknowledged_value_is_jumped(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.write(1, "c", 2)
    t.poll(2, (0, "a"), (2, "c"))


@violates(lost.KEPT)
def an_acknowledged_value_is_gone_and_nothing_stands_behind_it(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.read(2, 0, end=1)


@violates(lost.SEEN)
def an_acknowledged_value_is_never_seen(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a")


@violates(lost.SEEN)
def a_value_acknowledged_at_no_offset_is_never_seen(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))


@legal_case
def an_acknowledged_value_is_not_seen_yet(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a")


@legal_case
def nobody_waited_for_an_answer(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a", acks=0))
    t.write(1, "b", 0, acks=1)
    t.write(1, "c", 0)
    t.read(2, 0, "c")


@legal_case
def a_reader_begins_behind_what_nobody_else_reads(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.seek(2, 1)
    t.read(2, 1, "b")


# -- consumers -----------------------------------------------------------------------------------------


@violates(polls.NOTHING_MISSED)
def one_of_two_readers_misses_a_value(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.poll(3, (0, "a"), (2, "c"))


@violates(polls.NOTHING_MISSED)
def a_value_is_read_and_then_gone(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a")
    t.seek(2, 0)
    t.read(2, 0, end=1)


@violates(polls.NOTHING_MISSED)
def a_reader_jumps_from_one_poll_to_the_next(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.read(3, 0, "a")
    t.read(3, 2, "c")


@violates(polls.NOTHING_MISSED)
def a_reader_that_keeps_a_partition_jumps_in_it(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.assign(3, (HERE, 0))
    t.read(3, 0, "a")
    t.assign(3, ("t-1", 0), goes_on=(HERE,))
    t.read(3, 2, "c")


@violates(polls.NOTHING_MISSED)
def a_reader_begins_behind_where_it_was_put(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.assign(3, (HERE, 0))
    t.read(3, 1, "b")


@violates(polls.FORWARD)
def a_reader_gets_a_value_again(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def a_reader_begins_before_where_it_sought(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.seek(2, 1)
    t.read(2, 0, "a", "b")


@violates(polls.FORWARD)
def one_poll_is_out_of_order(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.lose(t.send(1, "b"))
    t.poll(2, (1, "b"), (0, "a"))


@violates(polls.FORWARD)
def one_poll_has_a_value_twice(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.poll(2, (0, "a"), (0, "a"))


@violates(polls.FORWARD)
def one_poll_begins_before_the_place_where_it_began(t: HistoryBuilder) -> None:
    t.write(1, "a", 4)
    t.write(1, "b", 5)
    t.poll(2, (4, "a"), (5, "b"), span=(5, 6))


@violates(polls.FORWARD)
def one_poll_ends_before_its_last_value(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b", end=1)


@legal_case
def a_reader_goes_back_on_purpose(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.seek(2, 0)
    t.read(2, 0, "a", "b")
    t.seek(2)
    t.read(2, 1, "b")


@legal_case
def a_group_shares_anew(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.assign(2, (HERE, NOWHERE))
    t.read(2, 0, "a", "b")
    t.assign(2)
    t.assign(3, (HERE, 0))
    t.read(3, 0, "a", "b", "c")
    t.assign(2, (HERE, 2))
    t.read(2, 2, "c")


@legal_case
def a_reader_dies_and_begins_again(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.end(2)
    t.read(2, 0, "a", "b")


@legal_case
def there_are_holes_of_which_nobody_knows(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 5)
    t.read(2, 0, "a")
    t.read(2, 3, end=4)
    t.poll(2, (5, "b"))


@legal_case
def a_reader_that_keeps_a_partition_goes_on_in_it(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(2, ("t-1", 0), goes_on=(HERE,))
    t.read(2, 1, "b")


# -- producers -----------------------------------------------------------------------------------------


@violates(values.IN_ORDER)
def an_idempotent_producer_is_reordered(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a", producer=1), t.send(1, "b", producer=1)
    t.ack(two, 0)
    t.ack(one, 1)


@violates(values.IN_ORDER)
def a_value_of_unknown_fate_comes_behind_its_successor(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a", producer=1))
    t.write(1, "b", 0, producer=1)
    t.read(2, 0, "b", "a")


@violates(values.IN_ORDER)
def the_third_overtakes_the_first(t: HistoryBuilder) -> None:
    calls = [t.send(1, value, producer=1) for value in "abc"]
    t.ack(calls[0], 1)
    t.lose(calls[1])
    t.ack(calls[2], 0)


@legal_case
def a_producer_that_is_not_idempotent_is_reordered(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(1, "b")
    t.ack(two, 0)
    t.ack(one, 1)


@legal_case
def two_idempotent_producers_in_any_order(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a", producer=1), t.send(1, "b", producer=2)
    t.ack(two, 0)
    t.ack(one, 1)


@legal_case
def two_partitions_in_any_order(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a", producer=1), t.send(1, "b", producer=1, where="t-1")
    t.ack(one, 4)
    t.ack(two, 3)


@violates(values.UPWARDS)
def a_client_writes_before_what_it_has_written(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(1, "b", 0)


@violates(values.IN_TIME)
def a_value_stands_before_one_that_another_had_written(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(2, "b", 0)


@violates(values.IN_TIME)
def a_value_stands_before_one_that_had_been_read(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(3, 1, "a")
    t.write(2, "b", 0)


@legal_case
def two_who_write_at_the_same_time(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(2, "b")
    t.ack(one, 1)
    t.ack(two, 0)


# -- positions of groups -------------------------------------------------------------------------------


@violates(groups.REMEMBERED)
def a_committed_position_is_gone(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.look(2, NOWHERE)


@violates(groups.REMEMBERED)
def an_older_position_is_back(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.commit(1, 7)
    t.look(2, 5)


@violates(groups.INVENTED)
def a_position_that_nobody_committed(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.look(2, 6)


@violates(groups.INVENTED)
def a_position_of_another_group(t: HistoryBuilder) -> None:
    t.commit(1, 5, group="other")
    t.look(2, 5)


@violates(groups.INVENTED)
def a_position_that_was_refused(t: HistoryBuilder) -> None:
    t.fail(t.commits(1, 5))
    t.look(2, 5)


@violates(groups.INVENTED)
def a_position_that_is_committed_later(t: HistoryBuilder) -> None:
    t.look(2, 5)
    t.commit(1, 5)


@legal_case
def nothing_was_committed(t: HistoryBuilder) -> None:
    t.look(2, NOWHERE)
    t.commit(1, 5)
    t.look(2, 5)


@legal_case
def a_commit_of_unknown_fate_counts_late(t: HistoryBuilder) -> None:
    t.lose(t.commits(1, 5))
    t.commit(1, 7)
    t.look(2, 7)
    t.look(2, 5)


@legal_case
def a_commit_of_unknown_fate_never_counts(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.lose(t.commits(1, 7))
    t.look(2, 5)


@legal_case
def who_looks_while_it_is_committed_may_find_either(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    looks = t.looks(2)
    commit = t.commits(1, 7)
    t.done(commit)
    t.found(looks, 5)
    looks = t.looks(2)
    commit = t.commits(1, 9)
    t.found(looks, 9)
    t.done(commit)


@legal_case
def a_position_goes_back_because_somebody_wants_it(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.commit(1, 7)
    t.commit(1, 5)
    t.look(2, 5)


@legal_case
def two_commits_at_the_same_time(t: HistoryBuilder) -> None:
    one, two = t.commits(1, 5), t.commits(2, 7)
    t.done(two)
    t.done(one)
    t.look(3, 5)


# -- at the same moment --------------------------------------------------------------------------------


@legal_case
def what_is_seen_at_one_moment_by_several_has_no_order(t: HistoryBuilder) -> None:
    t.step = 0
    t.write(1, "a", 1)
    t.write(2, "b", 0)
    t.read(3, 0, "b", "a")
    t.commit(1, 5)
    t.look(2, NOWHERE)


@legal_case
def a_value_is_read_at_the_moment_in_which_it_is_sent(t: HistoryBuilder) -> None:
    t.step = 0
    t.read(2, 0, "a")
    t.lose(t.send(1, "a"))


@violates(values.UPWARDS)
def for_one_client_its_order_is_the_truth(t: HistoryBuilder) -> None:
    t.step = 0
    t.write(1, "a", 1)
    t.write(1, "b", 0)


@violates(groups.REMEMBERED)
def one_client_looks_right_behind_its_commit(t: HistoryBuilder) -> None:
    t.step = 0
    t.commit(1, 5)
    t.look(1, NOWHERE)


@legal_case
def the_newest_of_several_marks_is_of_this_moment(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 5)
    t.later()
    t.step = 0
    t.write(3, "c", 9)
    t.write(2, "d", 7)
    t.step = 10
    t.read(4, 0, "a")
    t.write(2, "e", 10)


@violates(values.IN_TIME)
def it_stands_before_the_newest_mark_but_one(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 5)
    t.later()
    t.step = 0
    t.write(3, "c", 9)
    t.write(2, "d", 4)


@violates(lost.SEEN)
def a_value_that_all_have_acknowledged_at_no_offset_and_another_that_one_has(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))
    t.ack(t.send(1, "b", acks=1))
    t.write(1, "c", 0)
    t.read(2, 0, "c")


@legal_case
def who_is_given_other_partitions_forgets_where_it_was(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.assign(2, ("t-1", 0))
    t.read(2, 0, "a", "b")


@legal_case
def clients_do_not_share_their_places(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.assign(2, (HERE, 0))
    t.assign(3, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(3, ("t-1", 0))
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def what_one_is_given_does_not_move_another(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.read(2, 0, "a")
    t.assign(3, (HERE, 0))
    t.read(2, 0, "a")


@violates(groups.REMEMBERED)
def of_two_that_were_committed_at_one_offset_the_newer_is_overwritten_too(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.commit(1, 5)
    t.commit(1, 7)
    t.look(2, 5)
