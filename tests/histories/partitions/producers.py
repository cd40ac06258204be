"""Stories of idempotent producers: the replies that they receive, and the values that are committed."""

from __future__ import annotations

from typing import Final

from harness.checkers.partitions import producers
from replica.core.errors import ErrorCode
from tests.histories.partitions.story import ALL, HERE, ONE, TWO, Tale, breaks

DISORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED: Final = ErrorCode.INVALID_PRODUCER_EPOCH
SEVEN: Final = "a1:7/0 b1:8/0 c1:7/1 d1:8/1 e1:7/2 f1:8/2 g1:7/3 h1:8/3 i1:7/4"


@breaks(producers.REPLIES)
def a_stored_batch_gets_its_offset_again(t: Tale, bad: bool) -> None:
    t.opens(SEVEN, 9)
    t.replies(ONE, "a1:7/0", offset=9 if bad else 0)


@breaks(producers.REPLIES)
def a_stored_batch_is_refused(t: Tale, bad: bool) -> None:
    t.opens(SEVEN, 9)
    t.replies(ONE, "a1:7/0", DISORDER if bad else ErrorCode.NONE, -1 if bad else 0)


@breaks(producers.REPLIES)
def the_batch_before_the_last_five_is_out_of_order(t: Tale, bad: bool) -> None:
    t.opens(SEVEN, 9)
    t.has(ONE, f"{SEVEN} j1:9/0 k1:7/5")
    t.replies(ONE, "a1:7/0", ErrorCode.NONE if bad else DISORDER, 0 if bad else -1)


@breaks(producers.REPLIES)
def the_next_sequence_is_stored(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1", 2)
    t.replies(ONE, "c1:7/2", DISORDER if bad else ErrorCode.NONE, -1 if bad else 2)


@breaks(producers.REPLIES)
def a_gap_is_out_of_order(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.replies(ONE, "c1:7/2", ErrorCode.NONE if bad else DISORDER, 1 if bad else -1)


@breaks(producers.REPLIES)
def a_batch_of_another_length_is_not_the_stored_one(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1", 2)
    t.replies(ONE, "a1:7/0", ErrorCode.NONE if bad else DISORDER, 0 if bad else -1)


@breaks(producers.REPLIES)
def an_unknown_producer_begins_with_any_sequence(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.replies(ONE, "b1:8/3", DISORDER if bad else ErrorCode.NONE, -1 if bad else 1)


@breaks(producers.REPLIES)
def an_older_epoch_is_not_fenced_by_the_same_one(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.replies(ONE, "b1:7/1", FENCED if bad else ErrorCode.NONE, -1 if bad else 1)


@breaks(producers.REPLIES)
def a_newer_epoch_begins_with_sequence_0(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.replies(ONE, "b1:7/0", ErrorCode.NONE, 1, epoch=1)
    t.replies(ONE, "b1:7/1", ErrorCode.NONE if bad else DISORDER, 1 if bad else -1, epoch=1)


@breaks(producers.REPLIES)
def a_snapshot_may_know_deleted_batches(t: Tale, bad: bool) -> None:
    """The log begins at 3: the leader may still know the batch at offset 0, or not."""
    t.opens("a1:7/0 b1:8/0 c1:7/1 d1:8/1", 4)
    t.has(ONE, "c1:7/1 d1:8/1", start=2, cut=False)
    t.replies(ONE, "a1:7/0", offset=0)
    t.replies(ONE, "a1:7/0", DISORDER)
    t.replies(ONE, "x1:9/4", DISORDER)
    if bad:
        t.replies(ONE, "a1:7/0", offset=2)


@breaks(producers.REPLIES)
def truncated_batches_are_unknown(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:8/0", 1)
    t.has(ONE, "a1:7/0 b1:8/0 c1:7/1")
    t.replies(ONE, "c1:7/1", offset=2)
    t.has(ONE, "a1:7/0 b1:8/0")
    t.replies(ONE, "c1:7/1", offset=3 if bad else 2)
    t.replies(ONE, "d1:7/2", DISORDER)


@breaks(producers.REPLIES)
def other_errors_and_other_producers_are_not_judged(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0", 1)
    t.replies(ONE, "b1:7/1", ErrorCode.REQUEST_TIMED_OUT)
    t.replies(ONE, "b1 c1", DISORDER)
    t.replies(TWO, "b1:7/1", DISORDER)
    if bad:
        t.replies(ONE, "b1:7/1", DISORDER)
    t.fails(ONE)
    assert t.keeper.producers.judge(t.onlooked(ONE), HERE, b"") is None


# -- values --------------------------------------------------------------------------------------------


@breaks(producers.BY_VALUE)
def a_value_is_sent_anew_after_a_refusal_only(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1:7/1", 2)
    if not bad:
        t.replies(ONE, "a1:7/5", DISORDER)
    t.keeper.producers.gives_up(7)
    t.has(ONE, "a1:7/0 b1:7/1 a1:9/0")
    t.has(TWO, "a1:7/0 b1:7/1 a1:9/0")
    t.state(ONE, [ONE, TWO], 1)
    t.knows(ONE, 3)


@breaks(producers.BY_VALUE)
def a_value_has_one_sequence_of_its_producer(t: Tale, bad: bool) -> None:
    t.opens("a1:7/0 b1 b1", 3)
    value = "a" if bad else "c"
    for broker in ALL[1:]:
        t.has(broker, f"a1:7/0 b1 b1 {value}1:7/1")
    t.has(ONE, f"a1:7/0 b1 b1 {value}1:7/1")
    t.knows(ONE, 4)
