"""One task reads all sockets, and the driver takes its turn before other tasks run."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
import trio.testing

from zab.core.errors import WireError
from zab.net.socket_reader import TASK_READER, EpollReader, SocketReader
from zab.net.wakeup import Wakeup

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="here everybody reads for himself")


@contextmanager
def pair() -> Iterator[tuple[int, socket.socket]]:
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        yield here.fileno(), there


class Member:
    """A member with a wakeup, a task that answers it, and turns that others may take."""

    def __init__(self) -> None:
        self.bell = Wakeup()
        self.socket_reader = EpollReader(self.bell, self.turn)
        self.done: list[str] = []
        self.waits = False
        """The next turn cannot be finished by a call."""

    def turn(self) -> bool:
        self.done.append("turn")
        return not self.waits

    async def answer(self) -> None:
        while True:
            await self.bell.wait()
            self.done.append("task")
            self.waits = False


@asynccontextmanager
async def running() -> AsyncIterator[Member]:
    async with trio.open_nursery() as nursery:
        member = Member()
        member.socket_reader.open(nursery)
        nursery.start_soon(member.answer)
        yield member
        nursery.cancel_scope.cancel()


def until_end(member: Member, name: str = "") -> Callable[[bytes], bool]:
    def heard(data: bytes) -> bool:
        member.done.append(name + data.decode())
        member.bell.ring()
        return bool(data)

    return heard


async def settled() -> None:
    """Epoll is looked at in rounds of the loop: a task that waits for a socket is not busy."""
    for _ in range(5):
        await trio.testing.wait_all_tasks_blocked(0.01)


async def test_arriving_data_is_handled_and_the_turn_runs_in_the_same_round() -> None:
    async with running() as member, trio.open_nursery() as nursery:
        with pair() as (one, other_one), pair() as (two, other_two):
            nursery.start_soon(member.socket_reader.receive, one, 100, until_end(member))
            nursery.start_soon(member.socket_reader.receive, two, 100, until_end(member))
            await settled()
            other_one.send(b"a")
            other_two.send(b"b")
            await settled()
            assert sorted(member.done) == ["a", "b", "turn"], "one turn for both, and no task was woken for it"
            assert member.done[-1] == "turn"
            other_one.close()
            other_two.close()
            await settled()
            assert member.done[3:] == ["", "", "turn"]
            assert not nursery.child_tasks, "with the end of the stream the waiting ends"


async def test_a_turn_that_has_to_wait_is_left_to_the_task() -> None:
    async with running() as member, trio.open_nursery() as nursery:
        with pair() as (one, other):
            nursery.start_soon(member.socket_reader.receive, one, 100, until_end(member))
            await settled()
            member.waits = True
            other.send(b"a")
            await settled()
            assert member.done == ["a", "turn", "task"]
            nursery.cancel_scope.cancel()


async def test_while_the_task_is_awake_the_turn_is_its_own() -> None:
    async with running() as member, trio.open_nursery() as nursery:
        with pair() as (one, other):
            nursery.start_soon(member.socket_reader.receive, one, 100, until_end(member))
            await settled()
            other.send(b"a")
            member.bell.ring()
            await settled()
            assert "task" in member.done
            assert member.done.count("turn") + member.done.count("task") <= 2
            nursery.cancel_scope.cancel()


async def test_wakeup_during_a_turn_is_answered_by_the_task() -> None:
    async with running() as member, trio.open_nursery() as nursery:
        with pair() as (one, other):

            def turn() -> bool:
                member.done.append("turn")
                member.bell.ring()
                return True

            socket_reader = EpollReader(member.bell, turn)
            socket_reader.open(nursery)
            nursery.start_soon(socket_reader.receive, one, 100, until_end(member))
            await settled()
            other.send(b"a")
            await settled()
            assert member.done == ["a", "turn", "task"]
            nursery.cancel_scope.cancel()


async def test_enough_is_enough_until_it_is_asked_for_again() -> None:
    async with running() as member:
        with pair() as (one, other):
            got: list[bytes] = []

            def heard(data: bytes) -> bool:
                got.append(data)
                return False

            other.send(b"abc")
            await member.socket_reader.receive(one, 2, heard)
            await settled()
            assert got == [b"ab"]
            await member.socket_reader.receive(one, 2, heard)
            assert got == [b"ab", b"c"]


async def test_exception_of_a_data_handler_is_raised_at_the_waiting_task() -> None:
    async with running() as member, trio.open_nursery() as nursery:
        with pair() as (one, other), pair() as (two, other_two):

            def heard(data: bytes) -> bool:
                raise WireError("no frame")

            nursery.start_soon(member.socket_reader.receive, two, 100, until_end(member))
            other.send(b"a")
            with pytest.raises(WireError, match="no frame"):
                await member.socket_reader.receive(one, 100, heard)
            other_two.send(b"b")
            await settled()
            assert member.done == ["b", "turn"], "the others hear on"
            nursery.cancel_scope.cancel()


async def test_broken_socket_is_reported_to_its_owner() -> None:
    async with running() as member:
        reading, writing = os.openpty()
        os.set_blocking(reading, False)
        os.close(writing)  # to read from it is an error then, and not an end
        with pytest.raises(trio.BrokenResourceError):
            await member.socket_reader.receive(reading, 100, until_end(member))
        os.close(reading)


async def test_watcher_cancelled_by_an_event_gets_no_more() -> None:
    async with running() as member:
        with pair() as (one, other):
            scope = trio.CancelScope()

            def heard(data: bytes) -> bool:
                scope.cancel()
                raise WireError("nobody is there any more to be told")

            other.send(b"a")
            with scope:
                await member.socket_reader.receive(one, 100, heard)
            assert scope.cancelled_caught
            other.send(b"b")
            got: list[bytes] = []

            def heard_once(data: bytes) -> bool:
                got.append(data)
                return False

            await member.socket_reader.receive(one, 100, heard_once)
            assert got == [b"b"]


async def test_waiting_task_gets_the_end_of_the_reader() -> None:
    with pair() as (one, _), pair() as (two, other_two):
        async with trio.open_nursery() as nursery:
            async with running() as member:
                nursery.start_soon(raises_closed, member.socket_reader, one)
                await settled()
            with trio.fail_after(120):
                other_two.send(b"a")
                await member.socket_reader.receive(
                    two, 100, lambda data: False
                )  # a task that starts now reads by itself


async def raises_closed(socket_reader: SocketReader, number: int) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await socket_reader.receive(number, 100, bool)


async def test_reads_of_a_multi_read_fail_independently() -> None:
    with pair() as (one, other):
        got: list[bytes] = []

        def heard(data: bytes) -> bool:
            got.append(data)
            return bool(data)

        other.send(b"a")
        other.close()
        await TASK_READER.receive(one, 100, heard)
        assert got == [b"a", b""]


async def test_double_barrier_accepts_a_ready_node_of_another_client() -> None:
    async with running() as member:
        with pair() as (one, other):
            member.socket_reader.interrupt(one)  # nobody hears just now
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.socket_reader.receive, one, 100, until_end(member))
                await settled()
                assert member.socket_reader.interruptible
                member.socket_reader.interrupt(one)
            other.send(b"a")
            await settled()
            assert member.done == []
    assert not TASK_READER.interruptible
    TASK_READER.interrupt(one)
