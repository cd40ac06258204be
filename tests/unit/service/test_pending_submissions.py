"""Pending submissions: every request is carried out once and in order, or fails with a definite error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.errors import LeadersLost, OutcomeUnknown, Refused, Stopped
from zab.core.zxid import Epoch, Zxid, make
from zab.service.forwarding.pending_submissions import SLACK, PendingSubmissions, Submission, tagged
from zab.wire.relay_messages import TAG_BYTES

TAG = b"8 bytes."


class Caller:
    """Records the outcome of every request."""

    def __init__(self, pending: PendingSubmissions) -> None:
        self.pending = pending
        self.ends: dict[bytes, object] = {}

    def submit(self, *requests: bytes) -> list[Submission]:
        return [self.pending.submit(request, self._note(request)) for request in requests]

    def _note(self, request: bytes) -> Callable[[object, Exception | None], None]:
        def done(result: object, error: Exception | None) -> None:
            assert request not in self.ends, f"{request!r} was answered twice"
            self.ends[request] = type(error) if error is not None else result

        return done


def opened(count_max: int = 100, bytes_max: int = 10_000) -> Caller:
    """Serving, with the fence behind it."""
    pending = PendingSubmissions(TAG, count_max, bytes_max)
    pending.begin(Epoch(1))
    pending.on_catch_up_point(Zxid(0))
    assert pending.reached(Zxid(0))
    return Caller(pending)


def apply(pending: PendingSubmissions, first: int, *results: object) -> None:
    for number, result in enumerate(results, first):
        pending.applied(number, result)


def test_a_tag_is_the_origin_and_a_number() -> None:
    assert tagged(TAG, 258, b"txn") == b"8 bytes." + b"\0\0\0\0\0\0\1\2" + b"txn"
    assert len(tagged(TAG, 1, b"")) == TAG_BYTES


def test_gathered_writes_are_performed_together() -> None:
    caller = opened()
    caller.submit(b"a", b"b", b"c")
    assert caller.pending.wants_to_send
    assert caller.pending.take(10, 1000) == (1, [b"a", b"b", b"c"])
    assert caller.pending.take(10, 1000) == (0, [])
    assert not caller.pending.wants_to_send


def test_a_run_is_bounded_by_count_and_by_bytes() -> None:
    caller = opened()
    caller.submit(b"a" * 10, b"b" * 10, b"c" * 10)
    assert caller.pending.take(2, 1000) == (1, [b"a" * 10, b"b" * 10])
    caller.submit(b"d" * 10)
    assert caller.pending.take(10, 5) == (3, [b"c" * 10])
    assert caller.pending.take(10, 5) == (4, [b"d" * 10])


def test_of_many_as_many_are_taken_as_there_is_room_for() -> None:
    caller = opened(count_max=3, bytes_max=30)
    pending, told = caller.pending, list[object]()

    def done(result: object, error: Exception | None) -> None:
        told.append(result)

    caller.submit(b"a" * 10)
    assert pending.submit_many([b"b" * 10, b"c" * 10, b"d" * 10], done) == 2
    assert pending.submit_many([b"d" * 10], done) == 0
    assert pending.take(10, 1000) == (1, [b"a" * 10, b"b" * 10, b"c" * 10])
    apply(pending, 1, "A", "B")
    assert pending.submit_many([b"e" * 11], done) == 1
    assert pending.submit_many([b"f" * 10], done) == 0, "it would be too many bytes"
    assert pending.submit_many([], done) == 0
    apply(pending, 3, "C", "E")
    assert told == ["B", "C", "E"]
    assert pending.bytes == len(pending) == 0
    assert pending.submit_many([b"g" * 100], done) == 1, "one is always taken when there is nothing else"


def test_batch_of_submissions_does_not_overtake_a_waiting_one() -> None:
    caller = opened(count_max=1)
    caller.submit(b"a", b"waits")
    assert caller.pending.submit_many([b"b"], caller._note(b"b")) == 0
    apply(caller.pending, 1, "A")
    assert caller.pending.take(10, 1000) == (2, [b"waits"])


def test_applying_ones_own_transaction_answers() -> None:
    caller = opened()
    caller.submit(b"a", b"b")
    caller.pending.take(10, 1000)
    apply(caller.pending, 1, "one", "two")
    assert caller.ends == {b"a": "one", b"b": "two"}
    assert len(caller.pending) == 0
    assert caller.pending.bytes == 0


def test_transaction_of_an_earlier_run_answers_no_request() -> None:
    caller = opened()
    apply(caller.pending, 77, "who was that?")
    assert caller.ends == {}


def test_without_a_leader_requests_wait() -> None:
    caller = Caller(PendingSubmissions(TAG, 10, 1000))
    caller.submit(b"a")
    assert not caller.pending.wants_to_send


def test_nothing_is_sent_before_the_fence_is_applied() -> None:
    caller = Caller(PendingSubmissions(TAG, 10, 1000))
    caller.submit(b"a")
    caller.pending.begin(Epoch(2))
    assert not caller.pending.reached(make(2, 9)), "the fence is not even known"
    caller.pending.on_catch_up_point(make(2, 10))
    assert not caller.pending.reached(make(2, 9))
    assert not caller.pending.wants_to_send
    assert caller.pending.reached(make(2, 10))
    assert caller.pending.take(10, 1000) == (1, [b"a"])
    assert not caller.pending.reached(make(2, 11)), "it opens once"


def test_submissions_not_done_by_the_catch_up_point_are_resubmitted_in_order() -> None:
    caller = opened()
    caller.submit(b"a", b"b", b"c")
    caller.pending.take(2, 1000)
    caller.pending.end()
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(2, 1))
    apply(caller.pending, 1, "survived")
    caller.pending.reached(make(2, 1))
    assert caller.ends == {b"a": "survived"}
    caller.submit(b"d")
    assert caller.pending.take(10, 1000) == (2, [b"b", b"c", b"d"])


def test_a_fence_of_a_stint_that_is_over_opens_nothing() -> None:
    caller = opened()
    caller.submit(b"a")
    caller.pending.take(10, 1000)
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(3, 0))
    caller.pending.end()
    assert not caller.pending.reached(make(3, 0))
    assert not caller.pending.wants_to_send


# -- refusals -----------------------------------------------------------------------------------------------


def test_refusal_is_returned_when_its_state_is_applied_here() -> None:
    caller = opened()
    caller.submit(b"a", b"b")
    caller.pending.take(10, 1000)
    caller.pending.refused(make(1, 5), ((2, "sold out"),))
    caller.pending.reached(make(1, 4))
    assert caller.ends == {}
    caller.pending.reached(make(1, 5))
    assert caller.ends == {b"b": Refused}


def test_a_refusal_of_a_leader_that_is_lost_is_forgotten_and_the_request_asked_again() -> None:
    caller = opened()
    caller.submit(b"a")
    caller.pending.take(10, 1000)
    caller.pending.refused(make(1, 5), ((1, "based on what never came to be"),))
    caller.pending.end()
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(2, 0))
    caller.pending.reached(make(2, 0))
    assert caller.ends == {}
    assert caller.pending.take(10, 1000) == (1, [b"a"])


# -- leaders that are lost ------------------------------------------------------------------------------------


def lead(pending: PendingSubmissions, epoch: int) -> None:
    pending.end()
    pending.begin(Epoch(epoch))
    pending.on_catch_up_point(make(Epoch(epoch), 0))
    assert pending.reached(make(Epoch(epoch), 0))


def all_taken(pending: PendingSubmissions) -> list[tuple[int, bytes]]:
    taken: list[tuple[int, bytes]] = []
    while pending.wants_to_send:
        first, requests = pending.take(10, 1000)
        if not requests:
            break
        taken += enumerate(requests, first)
    return taken


@pytest.mark.parametrize("leaders_lost_max", [2, 3, 5])
def test_a_request_that_costs_every_leader_its_role_is_refused(leaders_lost_max: int) -> None:
    caller = Caller(PendingSubmissions(TAG, 100, 10_000, leaders_lost_max))
    pending, deaths, log = caller.pending, 0, list[bytes]()
    caller.submit(b"a", b"b", b"poison", b"c", b"d")
    for epoch in range(1, 20):
        lead(pending, epoch)
        alive = True
        while alive and (taken := all_taken(pending)):
            # This leader prepares all of what came together before it proposes any of it.
            alive = b"poison" not in dict(taken).values()
            deaths += not alive
            if alive:
                for counter, request in taken:
                    log.append(request)
                    pending.applied(counter, "done")
        if alive:
            break
        caller.submit(b"%d" % epoch)
    assert deaths == leaders_lost_max
    assert caller.ends[b"poison"] is LeadersLost
    assert log == [b"a", b"b", b"c", b"d", *(b"%d" % epoch for epoch in range(1, leaders_lost_max + 1))]
    assert list(caller.ends) == [b"a", b"b", b"poison", *log[2:]], "answered in order"


def test_submission_that_lost_one_leader_is_resent_with_the_others() -> None:
    caller = opened()
    caller.submit(b"a", b"b", b"c")
    caller.pending.take(2, 1000)
    lead(caller.pending, 2)
    assert caller.pending.take(10, 1000) == (1, [b"a", b"b", b"c"])


def test_submission_that_lost_two_leaders_is_sent_alone() -> None:
    caller = opened()
    caller.submit(b"a", b"b", b"c")
    caller.pending.take(2, 1000)
    lead(caller.pending, 2)
    caller.pending.take(2, 1000)
    lead(caller.pending, 3)
    assert all_taken(caller.pending) == [(1, b"a")]
    apply(caller.pending, 1, "A")
    assert all_taken(caller.pending) == [(2, b"b")]
    apply(caller.pending, 2, "B")
    caller.submit(b"d")
    assert all_taken(caller.pending) == [(3, b"c"), (4, b"d")]


def test_another_link_to_the_same_leader_is_no_leader_lost() -> None:
    caller = opened()
    caller.submit(b"a", b"b")
    for _ in range(5):
        caller.pending.take(10, 1000)
        lead(caller.pending, 1)
    assert all_taken(caller.pending) == [(1, b"a"), (2, b"b")]
    assert caller.ends == {}


def test_a_leader_that_was_sent_nothing_does_not_count() -> None:
    caller = opened()
    caller.submit(b"a", b"b")
    caller.pending.take(1, 1000)
    for epoch in range(2, 7):
        lead(caller.pending, epoch)
    assert all_taken(caller.pending) == [(1, b"a"), (2, b"b")]


# -- cancelling ---------------------------------------------------------------------------------------------


def test_a_request_cancelled_before_it_was_sent_never_is() -> None:
    caller = opened()
    _, second, _ = caller.submit(b"a", b"b", b"c")
    caller.pending.cancel(second)
    assert caller.pending.take(10, 1000) == (1, [b"a"]), "the numbers of a run are consecutive"
    assert caller.pending.take(10, 1000) == (3, [b"c"])
    assert len(caller.pending) == 2


def test_a_request_cancelled_on_its_way_takes_its_room_until_it_is_known() -> None:
    caller = opened()
    (only,) = caller.submit(b"a")
    caller.pending.take(10, 1000)
    caller.pending.cancel(only)
    assert len(caller.pending) == 1
    apply(caller.pending, 1, "too late")
    assert len(caller.pending) == 0
    assert caller.ends == {}


def test_a_cancelled_request_is_not_asked_again() -> None:
    caller = opened()
    first, _ = caller.submit(b"a", b"b")
    caller.pending.take(10, 1000)
    caller.pending.cancel(first)
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(2, 0))
    caller.pending.reached(make(2, 0))
    assert caller.pending.take(10, 1000) == (2, [b"b"])
    assert len(caller.pending) == 1


def test_cancelling_for_ever_without_a_leader_takes_no_memory() -> None:
    pending = PendingSubmissions(TAG, 10, 1000)
    caller = Caller(pending)
    for number in range(5 * SLACK):
        (submission,) = caller.submit(b"%d" % number)
        pending.cancel(submission)
    assert len(pending) == 0
    assert len(pending._unsent) <= SLACK + 1
    caller.submit(*(b"x%d" % number for number in range(10)))
    for number in range(5 * SLACK):
        (submission,) = caller.submit(b"y%d" % number)
        pending.cancel(submission)
    assert len(pending) == 10
    assert len(pending._queued) <= SLACK + 1
    caller.submit(b"waits at the head of the queue")
    for number in range(5 * SLACK):
        (submission,) = caller.submit(b"z%d" % number)
        pending.cancel(submission)
        pending.cancel(submission)
    assert len(pending._queued) <= SLACK + 1
    pending.take(100, 10_000)


# -- room ---------------------------------------------------------------------------------------------------


def test_room_is_given_in_the_order_of_arrival() -> None:
    caller = opened(count_max=2)
    caller.submit(b"a", b"b", b"c", b"d")
    assert not caller.pending.has_room(0)
    assert caller.pending.take(10, 1000) == (1, [b"a", b"b"])
    apply(caller.pending, 1, "one")
    assert caller.pending.take(10, 1000) == (3, [b"c"])
    assert len(caller.pending) == 2


def test_small_submission_does_not_overtake_a_large_one() -> None:
    caller = opened(bytes_max=10)
    caller.submit(b"12345678", b"123456789", b"1")
    assert caller.pending.take(10, 1000) == (1, [b"12345678"])
    apply(caller.pending, 1, None)
    assert caller.pending.take(10, 1000) == (2, [b"123456789", b"1"])


def test_one_that_is_larger_than_all_room_goes_alone() -> None:
    caller = opened(bytes_max=10)
    caller.submit(b"x" * 50, b"y")
    assert caller.pending.take(10, 1000) == (1, [b"x" * 50])
    assert len(caller.pending) == 1


def test_cancelled_submission_loses_its_place() -> None:
    caller = opened(count_max=1)
    _, second, _ = caller.submit(b"a", b"b", b"c")
    caller.pending.cancel(second)
    caller.pending.take(10, 1000)
    apply(caller.pending, 1, None)
    assert caller.pending.take(10, 1000) == (2, [b"c"])


# -- unknown ends -------------------------------------------------------------------------------------------


def test_submissions_open_at_a_snapshot_have_an_unknown_outcome() -> None:
    caller = opened()
    caller.submit(b"a", b"b")
    caller.pending.take(1, 1000)
    caller.pending.end()
    caller.pending.jumped()
    assert caller.ends == {b"a": OutcomeUnknown}
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(2, 0))
    caller.pending.reached(make(2, 0))
    assert caller.pending.take(10, 1000) == (2, [b"b"])


def test_open_submissions_fail_at_the_end() -> None:
    caller = opened(count_max=1)
    caller.submit(b"a", b"b")
    caller.pending.stop(Stopped("over"))
    assert caller.ends == {b"a": Stopped, b"b": Stopped}
    assert len(caller.pending) == 0


# -- all of it together -------------------------------------------------------------------------------------


@given(st.data())
def test_exactly_once_and_in_order_whatever_happens(data: st.DataObject) -> None:
    """Each leader carries out a part of its requests, and is lost with the rest."""
    caller = opened(count_max=5)
    pending = caller.pending
    log: list[bytes] = []
    on_the_way: list[tuple[int, bytes]] = []
    cancelled: set[bytes] = set()
    submissions: list[Submission] = []
    epoch = Epoch(1)

    def carry_out(count: int) -> None:
        for number, request in on_the_way[:count]:
            log.append(request)
            pending.applied(number, request)
        del on_the_way[:count]

    for step in range(data.draw(st.integers(1, 30))):
        match data.draw(st.sampled_from(["submit", "send", "carry out", "lose", "cancel"])):
            case "submit":
                submissions += caller.submit(b"%d" % step)
            case "send":
                first, requests = pending.take(data.draw(st.integers(1, 3)), 1000) if pending.wants_to_send else (0, [])
                on_the_way += enumerate(requests, first)
            case "carry out":
                carry_out(data.draw(st.integers(0, 3)))
            case "lose":
                pending.end()
                if data.draw(st.booleans()):
                    carry_out(data.draw(st.integers(0, 3)))  # it survived in the log of the next
                on_the_way.clear()
                epoch = Epoch(epoch + 1)
                pending.begin(epoch)
                pending.on_catch_up_point(make(epoch, 0))
                pending.reached(make(epoch, 0))
            case "cancel" if submissions:
                submission = data.draw(st.sampled_from(submissions))
                if submission.done is not None and submission.request not in caller.ends:
                    pending.cancel(submission)
                    cancelled.add(submission.request)
    carry_out(len(on_the_way))
    while pending.wants_to_send:
        first, requests = pending.take(100, 1000)
        on_the_way += enumerate(requests, first)
        carry_out(len(on_the_way))
    wanted = [submission.request for submission in submissions]
    assert len(log) == len(set(log)), "carried out twice"
    assert [request for request in wanted if request in log] == log, "out of order"
    refused = {request for request, end in caller.ends.items() if end is LeadersLost}
    assert not refused & set(log), "refused and carried out"
    assert set(wanted) - set(log) <= cancelled | refused, "not carried out"
    assert set(caller.ends) == set(wanted) - cancelled
    assert list(caller.ends) == [request for request in wanted if request in caller.ends], "answered out of order"
    assert len(pending) == 0


@pytest.mark.parametrize("length", [0, 7, 9])
def test_a_tag_has_eight_bytes(length: int) -> None:
    with pytest.raises(AssertionError):
        PendingSubmissions(bytes(length), 1, 1)


def test_refusal_that_was_lost_with_its_leader_stays_a_refusal() -> None:
    """The leader refused `a` and carried out `b`; `a` must not succeed behind `b` at the next leader."""
    caller = opened()
    caller.submit(b"a", b"b", b"c")
    assert caller.pending.take(10, 1000) == (1, [b"a", b"b", b"c"])
    caller.pending.end()
    caller.pending.begin(Epoch(2))
    caller.pending.on_catch_up_point(make(1, 1))
    apply(caller.pending, 2, "done")
    assert caller.pending.reached(make(1, 1))
    assert caller.ends == {b"b": "done", b"a": Refused}
    assert caller.pending.take(10, 1000) == (3, [b"c"])
