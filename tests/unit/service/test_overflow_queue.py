"""Requests that wait until the member has room: their order, and those that are given up or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zab.core.errors import Overloaded, Stopped
from zab.service.forwarding.pending_submissions import Done, Submission
from zab.service.overflow_queue import OverflowQueue


class MemberWithRoom:
    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[bytes] = []
        self.forgotten: list[bytes] = []
        self.stopped: Stopped | None = None

    def post(self, request: bytes, done: Done) -> Submission:
        if not self.post_many((request,), done):
            raise Overloaded("full")
        return Submission(request, done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        if self.stopped is not None:
            raise self.stopped
        taken = requests[: self.room - len(self.taken)]
        self.taken += taken
        return len(taken)

    def forget(self, submission: Submission) -> None:
        self.forgotten.append(submission.request)


class Outcomes(list[tuple[Any, Exception | None]]):
    def __call__(self, result: object, error: Exception | None) -> None:
        self.append((result, error))


def test_no_request_overtakes_a_waiting_one() -> None:
    member, done = MemberWithRoom(2), Outcomes()
    queue = OverflowQueue(member)
    queue.post_many((b"1", b"2", b"3"), done)
    queue.ask(b"4", done)
    member.room = 3  # for one more, which is not the next to arrive
    queue.post_many((b"5",), done)
    assert member.taken == [b"1", b"2"]
    queue.retry()
    assert (member.taken, len(queue.waiting)) == ([b"1", b"2", b"3"], 2)
    member.room = 9
    queue.retry()
    assert (member.taken, len(queue.waiting)) == ([b"1", b"2", b"3", b"4", b"5"], 0)


def test_request_given_up_while_it_waits_is_not_submitted() -> None:
    member, done = MemberWithRoom(0), Outcomes()
    queue = OverflowQueue(member)
    queue.give_up(queue.ask(b"1", done))
    queue.ask(b"2", done)
    member.room = 9
    queue.retry()
    assert (member.taken, member.forgotten) == ([b"2"], [])


def test_request_given_up_after_its_submission_is_forgotten() -> None:
    member, done = MemberWithRoom(0), Outcomes()
    queue = OverflowQueue(member)
    asked = queue.ask(b"1", done)
    member.room = 9
    queue.retry()
    queue.give_up(asked)
    assert (member.taken, member.forgotten) == ([b"1"], [b"1"])


def test_member_that_stopped_answers_each_request_with_its_error() -> None:
    member, done = MemberWithRoom(0), Outcomes()
    queue = OverflowQueue(member)
    queue.post_many((b"1", b"2"), done)
    member.stopped = Stopped("closed")
    queue.retry()
    queue.post_many((b"3", b"4"), done)
    queue.ask(b"5", done)
    assert (done, len(queue.waiting)) == ([(None, member.stopped)] * 5, 0)


def test_waiting_requests_are_refused_at_the_end() -> None:
    member, done, why = MemberWithRoom(0), Outcomes(), Stopped("closed")
    queue = OverflowQueue(member)
    queue.post_many((b"1",), done)
    queue.ask(b"2", done)
    queue.refuse(why)
    assert (done, len(queue.waiting), member.taken) == ([(None, why)] * 2, 0, [])
