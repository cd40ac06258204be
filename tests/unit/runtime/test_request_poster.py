"""Submission of a server's requests to its member, and cancelled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import trio
import trio.testing

from zab.core.errors import Overloaded
from zab.runtime.member import Member
from zab.runtime.store_server.request_poster import FLUSHED_AT_ONCE, RequestPoster
from zab.service.client_sessions import ignore_result
from zab.service.forwarding.pending_submissions import Done, Submission


class RoomyMember:
    """A member with room for this number of requests, which records them."""

    me = 1
    turning = False

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[Submission] = []
        self.forgotten: list[bytes] = []
        self.turned: Callable[[], None] = lambda: None

    def on_turn(self, turned: Callable[[], None]) -> None:
        self.turned = turned

    def post(self, request: bytes, done: Done) -> Submission:
        if len(self.taken) >= self.room:
            raise Overloaded("full")
        self.taken.append(Submission(request, done))
        return self.taken[-1]

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        taken = requests[: max(self.room - len(self.taken), 0)]
        self.taken += [Submission(request, done) for request in taken]
        return len(taken)

    def forget(self, submission: Submission) -> None:
        self.forgotten.append(submission.request)

    @property
    def asked(self) -> list[bytes]:
        return [each.request for each in self.taken]

    def answer(self, result: object) -> None:
        done = self.taken[-1].done
        assert done is not None
        done(result, None)


def poster_of(member: RoomyMember) -> RequestPoster:
    return RequestPoster(cast("Member", member), lambda done: done)


async def test_cancelled_waiter_removes_its_request() -> None:
    member = RoomyMember(1)
    poster = poster_of(member)
    with trio.move_on_after(0.01):
        await poster.ask(b"attach")
    assert (member.asked, member.forgotten) == ([b"attach"], [b"attach"])


async def test_an_answer_is_waited_for_and_nothing_is_wished_away() -> None:
    member = RoomyMember(1)
    poster = poster_of(member)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            answer: object = await poster.ask(b"attach")
            assert answer == "attached"

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        member.answer("attached")
    assert member.forgotten == []


async def test_waiting_request_keeps_its_place_until_its_connection_ends() -> None:
    member = RoomyMember(0)
    poster = poster_of(member)
    async with trio.open_nursery() as nursery:
        poster.post(b"first", ignore_result)
        nursery.start_soon(poster.ask, b"asked")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await poster.ask(b"given up")
        poster.post(b"last", ignore_result)
        member.room = 2
        member.turned()
        assert member.asked == [b"first", b"asked"]
        member.room = 9
        member.turned()
        assert (member.asked, member.forgotten) == ([b"first", b"asked", b"last"], [])
        nursery.cancel_scope.cancel()
    assert member.forgotten == [b"asked"], "there was room for it before it was given up"


async def test_many_connections_are_flushed_in_slices() -> None:
    """A change that ten thousand clients watch makes all of them dirty at once."""

    class Connection:
        flushed = 0

        def flush(self) -> None:
            Connection.flushed += 1

        def failed(self, mistake: Exception) -> None:
            raise mistake

    member = RoomyMember(0)
    poster = poster_of(member)
    count = 3 * FLUSHED_AT_ONCE + 1
    slices: list[int] = []
    flush = poster._flush

    def counted() -> None:
        before = Connection.flushed
        flush()
        slices.append(Connection.flushed - before)

    poster._flush = counted  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(poster.run)
        for _ in range(count):
            poster.dirty(Connection())
        with trio.fail_after(10):
            while Connection.flushed < count:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert slices == [FLUSHED_AT_ONCE] * 3 + [1]


async def test_connection_that_cannot_be_flushed_spoils_no_other() -> None:
    class Connection:
        def __init__(self, mistake: Exception | None = None) -> None:
            self.mistake = mistake
            self.flushed = 0
            self.failures: list[Exception] = []

        def flush(self) -> None:
            if self.mistake is not None:
                raise self.mistake
            self.flushed += 1

        def failed(self, mistake: Exception) -> None:
            self.failures.append(mistake)

    member = RoomyMember(1)
    poster = poster_of(member)
    bad, good = Connection(KeyError("x")), Connection()
    poster.dirty(bad)
    poster.dirty(good)
    member.turned()
    assert bad.failures == [bad.mistake]
    assert good.flushed == 1
