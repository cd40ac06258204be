"""Requests of a server's own on their way to its member, and askers who give up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import trio
import trio.testing

from zab.core.errors import Overloaded
from zab.runtime.coordination.posting import FLUSHED_AT_ONCE, Posting, ignore
from zab.runtime.member import Member
from zab.runtime.origin import Done, Submission


class Desk:
    """A member that has room for so many requests, and says what it was asked for."""

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


def posting(desk: Desk) -> Posting:
    made = Posting(cast("Member", desk))
    made._posts = -1_000  # none of them is timed
    return made


async def test_who_gives_up_wishes_away_what_was_asked() -> None:
    desk = Desk(1)
    door = posting(desk)
    with trio.move_on_after(0.01):
        await door.ask(b"attach")
    assert (desk.asked, desk.forgotten) == ([b"attach"], [b"attach"])


async def test_an_answer_is_waited_for_and_nothing_is_wished_away() -> None:
    desk = Desk(1)
    door = posting(desk)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            answer: object = await door.ask(b"attach")
            assert answer == "attached"

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.answer("attached")
    assert desk.forgotten == []


async def test_what_waits_for_room_keeps_its_place_and_goes_with_its_asker() -> None:
    desk = Desk(0)
    door = posting(desk)
    async with trio.open_nursery() as nursery:
        door.post(b"first", ignore)
        nursery.start_soon(door.ask, b"asked")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.01):
            await door.ask(b"given up")
        door.post(b"last", ignore)
        desk.room = 2
        desk.turned()
        assert desk.asked == [b"first", b"asked"]
        desk.room = 9
        desk.turned()
        assert (desk.asked, desk.forgotten) == ([b"first", b"asked", b"last"], [])
        nursery.cancel_scope.cancel()
    assert desk.forgotten == [b"asked"], "there was room for it before it was given up"


async def test_many_connections_are_flushed_in_slices() -> None:
    """A change that ten thousand clients watch makes all of them dirty at once."""

    class Connection:
        flushed = 0

        def flush(self) -> None:
            Connection.flushed += 1

        def failed(self, mistake: Exception) -> None:
            raise mistake

    desk = Desk(0)
    door = posting(desk)
    count = 3 * FLUSHED_AT_ONCE + 1
    slices: list[int] = []
    flush = door._flush

    def counted() -> None:
        before = Connection.flushed
        flush()
        slices.append(Connection.flushed - before)

    door._flush = counted  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(door._flush_when_rung)
        for _ in range(count):
            door.dirty(Connection())
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

    desk = Desk(1)
    door = posting(desk)
    bad, good = Connection(KeyError("x")), Connection()
    door.dirty(bad)
    door.dirty(good)
    desk.turned()
    assert bad.failures == [bad.mistake]
    assert good.flushed == 1
