"""Idempotent producers: the replies that they receive, and the values that are committed."""

from __future__ import annotations

from typing import Final

from harness.checkers.partitions import producers
from replica.core.errors import ErrorCode
from tests.histories.partitions.scenario import ALL, HERE, ONE, TWO, Scenario, breaks

DISORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED: Final = ErrorCode.INVALID_PRODUCER_EPOCH
SEVEN: Final = "a1:7/0 b1:8/0 c1:7/1 d1:8/1 e1:7/2 f1:8/2 g1:7/3 h1:8/3 i1:7/4"


@breaks(producers.REPLIES)
def stored_batch_gets_its_offset_again(s: Scenario, bad: bool) -> None:
    s.begin(SEVEN, 9)
    s.replies(ONE, "a1:7/0", offset=9 if bad else 0)


@breaks(producers.REPLIES)
def stored_batch_is_refused(s: Scenario, bad: bool) -> None:
    s.begin(SEVEN, 9)
    s.replies(ONE, "a1:7/0", DISORDER if bad else ErrorCode.NONE, -1 if bad else 0)


@breaks(producers.REPLIES)
def batch_before_the_last_five_is_out_of_order(s: Scenario, bad: bool) -> None:
    s.begin(SEVEN, 9)
    s.has(ONE, f"{SEVEN} j1:9/0 k1:7/5")
    s.replies(ONE, "a1:7/0", ErrorCode.NONE if bad else DISORDER, 0 if bad else -1)


@breaks(producers.REPLIES)
def next_sequence_is_stored(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1", 2)
    s.replies(ONE, "c1:7/2", DISORDER if bad else ErrorCode.NONE, -1 if bad else 2)


@breaks(producers.REPLIES)
def gap_is_out_of_order(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.replies(ONE, "c1:7/2", ErrorCode.NONE if bad else DISORDER, 1 if bad else -1)


@breaks(producers.REPLIES)
def batch_of_another_length_is_not_the_stored_one(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1", 2)
    s.replies(ONE, "a1:7/0", ErrorCode.NONE if bad else DISORDER, 0 if bad else -1)


@breaks(producers.REPLIES)
def unknown_producer_begins_with_any_sequence(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.replies(ONE, "b1:8/3", DISORDER if bad else ErrorCode.NONE, -1 if bad else 1)


@breaks(producers.REPLIES)
def producer_epoch_does_not_fence_itself(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.replies(ONE, "b1:7/1", FENCED if bad else ErrorCode.NONE, -1 if bad else 1)


@breaks(producers.REPLIES)
def newer_epoch_begins_with_sequence_0(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.replies(ONE, "b1:7/0", ErrorCode.NONE, 1, epoch=1)
    s.replies(ONE, "b1:7/1", ErrorCode.NONE if bad else DISORDER, 1 if bad else -1, epoch=1)


@breaks(producers.REPLIES)
def snapshot_may_have_deleted_batches(s: Scenario, bad: bool) -> None:
    """The log begins at 3: the leader may still know the batch at offset 0, or not."""
    s.begin("a1:7/0 b1:8/0 c1:7/1 d1:8/1", 4)
    s.has(ONE, "c1:7/1 d1:8/1", start=2, cut=False)
    s.replies(ONE, "a1:7/0", offset=0)
    s.replies(ONE, "a1:7/0", DISORDER)
    s.replies(ONE, "x1:9/4", DISORDER)
    if bad:
        s.replies(ONE, "a1:7/0", offset=2)


@breaks(producers.REPLIES)
def truncated_batches_are_unknown(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:8/0", 1)
    s.has(ONE, "a1:7/0 b1:8/0 c1:7/1")
    s.replies(ONE, "c1:7/1", offset=2)
    s.has(ONE, "a1:7/0 b1:8/0")
    s.replies(ONE, "c1:7/1", offset=3 if bad else 2)
    s.replies(ONE, "d1:7/2", DISORDER)


@breaks(producers.REPLIES)
def other_errors_and_other_producers_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.replies(ONE, "b1:7/1", ErrorCode.REQUEST_TIMED_OUT)
    s.replies(ONE, "b1 c1", DISORDER)
    s.replies(TWO, "b1:7/1", DISORDER)
    if bad:
        s.replies(ONE, "b1:7/1", DISORDER)
    s.disk_fails(ONE)
    assert s.checkers.producers.judge(s.observed(ONE), HERE, b"") is None


# -- values --------------------------------------------------------------------------------------------


@breaks(producers.BY_VALUE)
def value_is_sent_again_only_after_a_refusal(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1", 2)
    if not bad:
        s.replies(ONE, "a1:7/5", DISORDER)
    s.checkers.producers.gives_up(7)
    s.has(ONE, "a1:7/0 b1:7/1 a1:9/0")
    s.has(TWO, "a1:7/0 b1:7/1 a1:9/0")
    s.state(ONE, [ONE, TWO], 1)
    s.watermark(ONE, 3)


@breaks(producers.BY_VALUE)
def value_has_one_sequence_of_its_producer(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1 b1", 3)
    value = "a" if bad else "c"
    for broker in ALL[1:]:
        s.has(broker, f"a1:7/0 b1 b1 {value}1:7/1")
    s.has(ONE, f"a1:7/0 b1 b1 {value}1:7/1")
    s.watermark(ONE, 4)
