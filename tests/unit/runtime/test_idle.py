from __future__ import annotations

import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest
import trio
import trio.testing

from zab.runtime import idle
from zab.runtime.idle import Ready, attend

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the system has no epoll")

Hears = Callable[[bytes], None]


@contextmanager
def ear(hears: Hears) -> Iterator[tuple[select.epoll, Callable[[Ready], None], socket.socket]]:
    """An epoll with one socket in it, what reads from that one, and its other end."""
    here, there = socket.socketpair()
    with here, there, select.epoll() as epoll:
        epoll.register(here, select.EPOLLIN)

        def hear(ready: Ready) -> None:
            for number, _ in ready:
                if number == here.fileno():
                    hears(here.recv(100))

        yield epoll, hear, there


class Passes(trio.abc.Instrument):
    count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_a_conversation_takes_no_pass_of_the_loop() -> None:
    passes, said = Passes(), trio.Event()

    def answer(data: bytes) -> None:
        if data == b"bye":
            said.set()
        else:
            there_too.send(data)

    with ear(answer) as (epoll, hear, there):
        here_too, there_too = socket.socketpair()

        def converse() -> None:
            for _ in range(50):
                there.send(b"well?")
                assert here_too.recv(100) == b"well?"
            there.send(b"bye")

        with here_too, there_too:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(attend, epoll, hear)
                await trio.testing.wait_all_tasks_blocked()
                trio.lowlevel.add_instrument(passes)
                thread = threading.Thread(target=converse)
                thread.start()
                await said.wait()
                thread.join()
                nursery.cancel_scope.cancel()
    assert passes.count < 25, "but of each that wakes a task"


async def test_who_is_woken_by_what_is_heard_goes_on_at_once() -> None:
    heard = trio.Event()
    with ear(lambda data: heard.set()) as (epoll, hear, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            timer = threading.Timer(0.01, there.send, [b"a"])
            timer.start()
            await heard.wait()  # nothing else would end this wait
            nursery.cancel_scope.cancel()


async def test_a_deadline_that_is_moved_by_what_is_heard_is_kept() -> None:
    def heard(data: bytes) -> None:
        scope.deadline = trio.current_time()

    with ear(heard) as (epoll, hear, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            threading.Timer(0.01, there.send, [b"a"]).start()
            with trio.CancelScope() as scope:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()


async def test_a_deadline_is_kept_while_something_arrives_without_end() -> None:
    heard = 0

    def again(data: bytes) -> None:
        nonlocal heard
        heard += 1
        if heard < 500_000:  # else this would not fail but stand still
            there_too.send(data)

    with ear(again) as (epoll, hear, there):
        there_too = there
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            there.send(b"a")
            with trio.move_on_after(0.05):
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
    assert 0 < heard < 500_000


async def test_the_rest_of_the_loop_is_as_ever() -> None:
    here, there = trio.socket.socketpair()
    with ear(lambda data: None) as (epoll, hear, _), here, there:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            await trio.sleep(0.01)
            assert await trio.to_thread.run_sync(lambda: 3) == 3
            nursery.start_soon(there.send, b"b")
            assert await here.recv(10) == b"b"
            nursery.cancel_scope.cancel()


async def test_in_a_loop_that_is_never_idle_it_is_heard_all_the_same() -> None:
    heard: list[bytes] = []
    with ear(heard.append) as (epoll, hear, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            there.send(b"a")
            while not heard:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


async def test_what_it_raises_is_raised_where_it_is_attended_to() -> None:
    def heard(data: bytes) -> None:
        raise ValueError(data)

    with ear(heard) as (epoll, hear, there):
        there.send(b"a")
        with pytest.raises(ValueError, match="a"):
            await attend(epoll, hear)
    await trio.sleep(0.01)  # and the loop has forgotten it


async def test_one_after_the_other_and_two_at_a_time() -> None:
    heard: list[str] = []
    for _ in range(2):
        with (
            ear(lambda data: heard.append("one")) as (one, hear_one, to_one),
            ear(lambda data: heard.append("two")) as (two, hear_two, to_two),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(attend, one, hear_one)
                nursery.start_soon(attend, two, hear_two)
                await trio.testing.wait_all_tasks_blocked()
                to_one.send(b"a")
                to_two.send(b"a")
                while len(heard) < 2:
                    await trio.sleep(0.001)
                nursery.cancel_scope.cancel()
        assert sorted(heard) == ["one", "two"]
        heard.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Trio has no epoll")
async def test_it_knows_the_loop_of_the_trio_that_is_here() -> None:
    """Else nothing is wrong, and everything takes longer."""
    assert idle._runner() is not None


def test_a_guest_does_not_hold_up_its_host() -> None:
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
    heard: list[bytes] = []
    ended: list[object] = []

    async def guest() -> None:
        assert idle._runner() is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attend, epoll, hear)
            await trio.testing.wait_all_tasks_blocked()
            there.send(b"a")
            while not heard:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()

    with ear(heard.append) as (epoll, hear, there):
        trio.lowlevel.start_guest_run(guest, run_sync_soon_threadsafe=calls.put, done_callback=ended.append)
        while not ended:
            calls.get()()
    assert heard == [b"a"]
    assert ended[0].unwrap() is None  # type: ignore[attr-defined]
