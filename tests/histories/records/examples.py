"""Examples for every invariant of brokers: legal histories, and histories that violate it.

An example is a function that fills a `HistoryBuilder`; `violated` is the name of the violated invariant, or empty.
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
def two_consumers_read_two_values_at_one_offset(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.lose(t.send(1, "b"))
    t.read(2, 0, "a")
    t.read(3, 0, "b")


@violates(values.ONE)
def two_producers_get_one_offset(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(2, "b")
    t.ack(one, 5)
    t.ack(two, 5)


@violates(values.ONE)
def consumer_reads_another_value_than_the_acknowledged_one(t: HistoryBuilder) -> None:
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
def offset_of_a_lost_acks_1_record_is_reused(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, acks=1)
    t.write(1, "b", 0)
    t.read(2, 0, "b")


# -- one offset of a value -----------------------------------------------------------------------------


@violates(values.ONCE)
def idempotent_value_is_written_twice(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, producer=1)
    t.read(2, 0, "a", "a")


@violates(values.ONCE)
def value_is_acknowledged_at_one_offset_and_read_at_another(t: HistoryBuilder) -> None:
    t.write(1, "a", 0, producer=1)
    t.read(2, 1, "a")


@legal_case
def producer_that_sends_again_may_write_twice(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 2)
    t.read(2, 0, "a", "a", "b")


# -- only sent values ----------------------------------------------------------------------------------


@violates(values.SENT)
def value_was_never_sent(t: HistoryBuilder) -> None:
    t.read(2, 0, "a")


@violates(values.THERE)
def value_is_read_in_another_partition(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a", where="t-1")


@violates(values.REFUSED)
def refused_value_is_read(t: HistoryBuilder) -> None:
    t.fail(t.send(1, "a"))
    t.read(2, 0, "a")


@violates(values.THERE)
def value_is_read_before_it_is_sent(t: HistoryBuilder) -> None:
    t.read(2, 0, "a")
    t.lose(t.send(1, "a"))


@legal_case
def value_is_read_before_it_is_acknowledged(t: HistoryBuilder) -> None:
    call = t.send(1, "a")
    t.read(2, 0, "a")
    t.ack(call, 0)


@legal_case
def value_with_an_unknown_outcome_was_written(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a")


@legal_case
def value_with_an_unknown_outcome_is_written_late(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "late"))
    t.write(1, "b", 0)
    t.read(2, 0, "b")
    t.read(2, 1, "late")


@legal_case
def refused_value_is_not_written(t: HistoryBuilder) -> None:
    t.fail(t.send(1, "a"))
    t.write(1, "b", 0)
    t.read(2, 0, "b")


# -- acknowledged records ------------------------------------------------------------------------------


@violates(lost.KEPT)
def acknowledged_value_is_skipped(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.write(1, "c", 2)
    t.poll(2, (0, "a"), (2, "c"))


@violates(lost.KEPT)
def last_acknowledged_value_is_lost(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.read(2, 0, end=1)


@violates(lost.SEEN)
def acknowledged_value_is_never_read(t: HistoryBuilder) -> None:
    t.complete = True
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a")


@violates(lost.SEEN)
def value_acknowledged_without_offset_is_never_read(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))


@legal_case
def acknowledged_value_is_not_read_yet(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a")


@legal_case
def unacknowledged_value_is_never_read(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a", acks=0))
    t.write(1, "b", 0, acks=1)
    t.write(1, "c", 0)
    t.read(2, 0, "c")


@legal_case
def consumer_begins_after_unread_records(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.seek(2, 1)
    t.read(2, 1, "b")


# -- consumers -----------------------------------------------------------------------------------------


@violates(polls.NOTHING_MISSED)
def one_of_two_consumers_skips_a_value(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.poll(3, (0, "a"), (2, "c"))


@violates(polls.NOTHING_MISSED)
def read_value_disappears(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(2, 0, "a")
    t.seek(2, 0)
    t.read(2, 0, end=1)


@violates(polls.NOTHING_MISSED)
def consumer_skips_records_between_polls(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.read(3, 0, "a")
    t.read(3, 2, "c")


@violates(polls.NOTHING_MISSED)
def consumer_skips_records_in_a_kept_partition(t: HistoryBuilder) -> None:
    for offset, value in enumerate("abc"):
        t.write(1, value, offset)
    t.read(2, 0, "a", "b", "c")
    t.assign(3, (HERE, 0))
    t.read(3, 0, "a")
    t.assign(3, ("t-1", 0), goes_on=(HERE,))
    t.read(3, 2, "c")


@violates(polls.NOTHING_MISSED)
def consumer_begins_after_its_assigned_offset(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.assign(3, (HERE, 0))
    t.read(3, 1, "b")


@violates(polls.FORWARD)
def consumer_reads_a_value_again(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def consumer_begins_before_its_seek(t: HistoryBuilder) -> None:
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
def consumer_seeks_back(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.seek(2, 0)
    t.read(2, 0, "a", "b")
    t.seek(2)
    t.read(2, 1, "b")


@legal_case
def group_rebalances(t: HistoryBuilder) -> None:
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
def restarted_consumer_begins_again(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.end(2)
    t.read(2, 0, "a", "b")


@legal_case
def unknown_offsets_may_be_skipped(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 5)
    t.read(2, 0, "a")
    t.read(2, 3, end=4)
    t.poll(2, (5, "b"))


@legal_case
def consumer_continues_in_a_kept_partition(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.assign(2, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(2, ("t-1", 0), goes_on=(HERE,))
    t.read(2, 1, "b")


# -- producers -----------------------------------------------------------------------------------------


@violates(values.IN_ORDER)
def idempotent_producer_is_reordered(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a", producer=1), t.send(1, "b", producer=1)
    t.ack(two, 0)
    t.ack(one, 1)


@violates(values.IN_ORDER)
def value_with_an_unknown_outcome_is_written_after_its_successor(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a", producer=1))
    t.write(1, "b", 0, producer=1)
    t.read(2, 0, "b", "a")


@violates(values.IN_ORDER)
def third_overtakes_the_first(t: HistoryBuilder) -> None:
    calls = [t.send(1, value, producer=1) for value in "abc"]
    t.ack(calls[0], 1)
    t.lose(calls[1])
    t.ack(calls[2], 0)


@legal_case
def producer_that_is_not_idempotent_is_reordered(t: HistoryBuilder) -> None:
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
def record_is_before_an_acknowledged_one_of_its_client(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(1, "b", 0)


@violates(values.IN_TIME)
def record_is_before_one_that_another_client_had_written(t: HistoryBuilder) -> None:
    t.write(1, "a", 1)
    t.write(2, "b", 0)


@violates(values.IN_TIME)
def record_is_before_one_that_had_been_read(t: HistoryBuilder) -> None:
    t.lose(t.send(1, "a"))
    t.read(3, 1, "a")
    t.write(2, "b", 0)


@legal_case
def two_concurrent_writes(t: HistoryBuilder) -> None:
    one, two = t.send(1, "a"), t.send(2, "b")
    t.ack(one, 1)
    t.ack(two, 0)


# -- offsets of groups ---------------------------------------------------------------------------------


@violates(groups.REMEMBERED)
def committed_offset_is_lost(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.look(2, NOWHERE)


@violates(groups.REMEMBERED)
def older_offset_is_returned(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.commit(1, 7)
    t.look(2, 5)


@violates(groups.INVENTED)
def offset_was_never_committed(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.look(2, 6)


@violates(groups.INVENTED)
def offset_of_another_group(t: HistoryBuilder) -> None:
    t.commit(1, 5, group="other")
    t.look(2, 5)


@violates(groups.INVENTED)
def refused_offset_is_returned(t: HistoryBuilder) -> None:
    t.fail(t.commits(1, 5))
    t.look(2, 5)


@violates(groups.INVENTED)
def offset_is_returned_before_its_commit(t: HistoryBuilder) -> None:
    t.look(2, 5)
    t.commit(1, 5)


@legal_case
def nothing_was_committed(t: HistoryBuilder) -> None:
    t.look(2, NOWHERE)
    t.commit(1, 5)
    t.look(2, 5)


@legal_case
def commit_with_an_unknown_outcome_takes_effect_late(t: HistoryBuilder) -> None:
    t.lose(t.commits(1, 5))
    t.commit(1, 7)
    t.look(2, 7)
    t.look(2, 5)


@legal_case
def commit_with_an_unknown_outcome_never_takes_effect(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.lose(t.commits(1, 7))
    t.look(2, 5)


@legal_case
def concurrent_fetch_may_return_either_offset(t: HistoryBuilder) -> None:
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
def client_commits_a_lower_offset(t: HistoryBuilder) -> None:
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


# -- events of the same instant ------------------------------------------------------------------------


@legal_case
def events_of_clients_at_one_instant_have_no_order(t: HistoryBuilder) -> None:
    t.step = 0
    t.write(1, "a", 1)
    t.write(2, "b", 0)
    t.read(3, 0, "b", "a")
    t.commit(1, 5)
    t.look(2, NOWHERE)


@legal_case
def value_is_read_at_the_instant_of_its_send(t: HistoryBuilder) -> None:
    t.step = 0
    t.read(2, 0, "a")
    t.lose(t.send(1, "a"))


@violates(values.UPWARDS)
def events_of_one_client_are_ordered(t: HistoryBuilder) -> None:
    t.step = 0
    t.write(1, "a", 1)
    t.write(1, "b", 0)


@violates(groups.REMEMBERED)
def client_fetches_right_after_its_commit(t: HistoryBuilder) -> None:
    t.step = 0
    t.commit(1, 5)
    t.look(1, NOWHERE)


@legal_case
def newest_watermark_is_of_the_same_instant(t: HistoryBuilder) -> None:
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
def record_is_before_the_last_watermark_but_one(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 5)
    t.later()
    t.step = 0
    t.write(3, "c", 9)
    t.write(2, "d", 4)


@violates(lost.SEEN)
def acknowledgements_without_offset_and_by_one_replica(t: HistoryBuilder) -> None:
    t.complete = True
    t.ack(t.send(1, "a"))
    t.ack(t.send(1, "b", acks=1))
    t.write(1, "c", 0)
    t.read(2, 0, "c")


@legal_case
def new_assignment_resets_positions(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.read(2, 0, "a", "b")
    t.assign(2, ("t-1", 0))
    t.read(2, 0, "a", "b")


@legal_case
def clients_have_separate_positions(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.write(1, "b", 1)
    t.assign(2, (HERE, 0))
    t.assign(3, (HERE, 0))
    t.read(2, 0, "a")
    t.assign(3, ("t-1", 0))
    t.read(2, 1, "b")


@violates(polls.FORWARD)
def assignment_does_not_move_other_clients(t: HistoryBuilder) -> None:
    t.write(1, "a", 0)
    t.read(2, 0, "a")
    t.assign(3, (HERE, 0))
    t.read(2, 0, "a")


@violates(groups.REMEMBERED)
def newer_of_two_equal_commits_is_overwritten(t: HistoryBuilder) -> None:
    t.commit(1, 5)
    t.commit(1, 5)
    t.commit(1, 7)
    t.look(2, 5)
