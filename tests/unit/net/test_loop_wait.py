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

from zab.net import loop_wait
from zab.net.loop_wait import ReadyDescriptors, claim_this_loop, wait_for_epoll

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the system has no epoll")

OnData = Callable[[bytes], None]


@contextmanager
def readable(
    on_data: OnData, *, claim: bool = True
) -> Iterator[tuple[select.epoll, Callable[[ReadyDescriptors], None], socket.socket]]:
    """An epoll with one socket in it, the function that reads from it, and the other end of the socket."""
    if claim:
        claim_this_loop()
    here, there = socket.socketpair()
    with here, there, select.epoll() as epoll:
        epoll.register(here, select.EPOLLIN)

        def on_ready(ready: ReadyDescriptors) -> None:
            for number, _ in ready:
                if number == here.fileno():
                    on_data(here.recv(100))

        yield epoll, on_ready, there


class Passes(trio.abc.Instrument):
    count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_conversation_takes_no_pass_of_the_loop() -> None:
    passes, said = Passes(), trio.Event()

    def answer(data: bytes) -> None:
        if data == b"bye":
            said.set()
        else:
            there_too.send(data)

    with readable(answer) as (epoll, on_ready, there):
        here_too, there_too = socket.socketpair()

        def converse() -> None:
            for _ in range(50):
                there.send(b"well?")
                assert here_too.recv(100) == b"well?"
            there.send(b"bye")

        with here_too, there_too:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_for_epoll, epoll, on_ready)
                await trio.testing.wait_all_tasks_blocked()
                trio.lowlevel.add_instrument(passes)
                thread = threading.Thread(target=converse)
                thread.start()
                await said.wait()
                thread.join()
                nursery.cancel_scope.cancel()
    assert passes.count < 25, "only data that wakes a task needs a pass"


async def test_task_woken_by_arriving_data_goes_on_at_once() -> None:
    heard = trio.Event()
    with readable(lambda data: heard.set()) as (epoll, on_ready, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            timer = threading.Timer(0.01, there.send, [b"a"])
            timer.start()
            await heard.wait()  # nothing else ends this wait
            nursery.cancel_scope.cancel()


async def test_deadline_moved_by_arriving_data_is_kept() -> None:
    def heard(data: bytes) -> None:
        scope.deadline = trio.current_time()

    with readable(heard) as (epoll, on_ready, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            threading.Timer(0.01, there.send, [b"a"]).start()
            with trio.CancelScope() as scope:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()


async def test_deadline_is_kept_while_data_arrives_without_end() -> None:
    heard = 0

    def again(data: bytes) -> None:
        nonlocal heard
        heard += 1
        if heard < 500_000:  # without this bound the test would hang instead of failing
            there_too.send(data)

    with readable(again) as (epoll, on_ready, there):
        there_too = there
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            there.send(b"a")
            with trio.move_on_after(0.05):
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
    assert 0 < heard < 500_000


async def test_threads_timers_and_other_sockets_of_the_loop_still_work() -> None:
    here, there = trio.socket.socketpair()
    with readable(lambda data: None) as (epoll, on_ready, _), here, there:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            await trio.sleep(0.01)
            assert await trio.to_thread.run_sync(lambda: 3) == 3
            nursery.start_soon(there.send, b"b")
            assert await here.recv(10) == b"b"
            nursery.cancel_scope.cancel()


async def test_data_is_handled_in_a_loop_that_is_never_idle() -> None:
    heard: list[bytes] = []
    with readable(heard.append) as (epoll, on_ready, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            there.send(b"a")
            while not heard:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


async def test_error_of_the_callback_is_raised_in_the_waiting_task() -> None:
    def heard(data: bytes) -> None:
        raise ValueError(data)

    with readable(heard) as (epoll, on_ready, there):
        there.send(b"a")
        with pytest.raises(ValueError, match="a"):
            await wait_for_epoll(epoll, on_ready)
    await trio.sleep(0.01)  # and the loop has forgotten it


async def test_two_epolls_in_turn_and_at_the_same_time() -> None:
    heard: list[str] = []
    for _ in range(2):
        with (
            readable(lambda data: heard.append("one")) as (one, on_one, to_one),
            readable(lambda data: heard.append("two")) as (two, on_two, to_two),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_for_epoll, one, on_one)
                nursery.start_soon(wait_for_epoll, two, on_two)
                await trio.testing.wait_all_tasks_blocked()
                to_one.send(b"a")
                to_two.send(b"a")
                while len(heard) < 2:
                    await trio.sleep(0.001)
                nursery.cancel_scope.cancel()
        assert sorted(heard) == ["one", "two"]
        heard.clear()


async def test_unclaimed_loop_is_waited_for_by_public_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in another application: no private name is looked at, and the data arrives all the same."""

    def refuse() -> None:
        raise AssertionError("private names of Trio were looked at")

    monkeypatch.setattr(loop_wait, "_runner", refuse)
    received = trio.Event()
    with readable(lambda data: received.set(), claim=False) as (epoll, on_ready, there):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            there.send(b"a")
            await received.wait()
            nursery.cancel_scope.cancel()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Trio has no epoll")
async def test_private_names_of_the_installed_trio_are_known() -> None:
    """Another Trio still works, but takes longer."""
    assert loop_wait._runner() is not None


def test_guest_run_does_not_hold_up_its_host() -> None:
    calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
    heard: list[bytes] = []
    ended: list[object] = []

    async def guest() -> None:
        claim_this_loop()
        assert loop_wait._runner() is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_epoll, epoll, on_ready)
            await trio.testing.wait_all_tasks_blocked()
            there.send(b"a")
            while not heard:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()

    with readable(heard.append, claim=False) as (epoll, on_ready, there):
        trio.lowlevel.start_guest_run(guest, run_sync_soon_threadsafe=calls.put, done_callback=ended.append)
        while not ended:
            calls.get()()
    assert heard == [b"a"]
    assert ended[0].unwrap() is None  # type: ignore[attr-defined]
