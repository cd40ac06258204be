"""Clients' requests for which the member has no room, in the order of their arrival.

A request goes to the member at once if there is room and no other request waits. Otherwise it waits behind the others,
so that no request overtakes another. The owner calls `retry` at the end of each turn: answers may have made room.

The module is pure. Its owner is the server's `RequestPoster`, in simulation the client port of a simulated server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from zab.core.errors import Overloaded, ZabError
from zab.service.forwarding.pending_submissions import Done, Submission


class SubmissionPort(Protocol):
    """The part of a member that takes requests while there is room."""

    def post(self, request: bytes, done: Done) -> Submission:
        """Submit a request. Raise `Overloaded` if there is no room, or another `ZabError`, such as `Stopped`."""

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        """Submit as many of the requests as there is room for, and return how many. If it raises, none is submitted."""

    def forget(self, submission: Submission) -> None: ...


class OverflowRequest:
    """A request that waits for room or was submitted. Its caller can give it up."""

    __slots__ = ("done", "given_up", "request", "submission")

    def __init__(self, request: bytes, done: Done) -> None:
        self.request = request
        self.done = done
        self.submission: Submission | None = None
        """The member's submission. Set once there was room for it."""
        self.given_up = False


class OverflowQueue:
    def __init__(self, member: SubmissionPort) -> None:
        self._member = member
        self.waiting: deque[OverflowRequest] = deque()
        """Requests for which there was no room, in the order of arrival."""

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        """Submit requests that arrived together, in their order; `done` is called for each of them.

        Those for which the member has no room wait in the queue.
        """
        taken = 0
        if not self.waiting:
            try:
                taken = self._member.post_many(requests, done)
            except ZabError as error:
                for _ in requests:
                    done(None, error)
                return
        self.waiting += [OverflowRequest(request, done) for request in requests[taken:]]

    def ask(self, request: bytes, done: Done) -> OverflowRequest:
        """Submit a request that the caller may give up."""
        asked = OverflowRequest(request, done)
        self._ask(asked)
        return asked

    def give_up(self, asked: OverflowRequest) -> None:
        """Stop waiting for a request. If it was not sent yet, it never is; if it was, it is not sent again."""
        asked.given_up = True
        if asked.submission is not None:
            self._member.forget(asked.submission)

    def _ask(self, asked: OverflowRequest) -> None:
        if not self.waiting:
            try:
                asked.submission = self._member.post(asked.request, asked.done)
                return
            except Overloaded:
                pass
            except ZabError as error:
                asked.done(None, error)
                return
        self.waiting.append(asked)

    def retry(self) -> None:
        """Submit waiting requests until one finds no room. Skip those that were given up."""
        waiting, self.waiting = self.waiting, deque()
        while waiting and not self.waiting:
            request = waiting.popleft()
            if not request.given_up:
                self._ask(request)
        self.waiting += waiting

    def refuse(self, why: Exception) -> None:
        """Answer all waiting requests with an error."""
        waiting, self.waiting = self.waiting, deque()
        for request in waiting:
            request.done(None, why)
