from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from zab.core.batch import pack
from zab.core.errors import StorageError
from zab.core.ready import Append, SnapshotChunk, Write
from zab.core.zxid import make
from zab.runtime.writer import QUICK_WRITES, Writer


class Disk:
    """A disk that holds every `perform` until released, so that a test controls the gathered writes."""

    def __init__(self) -> None:
        self.performed: list[list[int]] = []
        self.threads: set[int] = set()
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.error: Exception | None = None

    def perform(self, writes: Sequence[Write]) -> None:
        self.threads.add(threading.get_ident())
        self.entered.release()
        self.go.acquire()
        if self.error is not None:
            raise self.error
        self.performed.append([write.ticket for write in writes])

    async def busy(self) -> None:
        await trio.to_thread.run_sync(self.entered.acquire)


def write(ticket: int) -> Append:
    return Append(ticket, pack(make(1, ticket), [b"12345678"]))


async def test_writes_that_gather_during_a_write_are_the_next_one() -> None:
    disk = Disk()
    reported: list[int] = []
    writer = Writer(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, reported.append)
        writer.put([write(1)])
        await disk.busy()
        writer.put([write(2), write(3)])
        writer.put([write(4)])
        assert reported == []
        disk.go.release()
        disk.go.release()
        await disk.busy()
        while len(reported) < 2:
            await trio.lowlevel.checkpoint()
        assert disk.performed == [[1], [2, 3, 4]]
        assert reported == [1, 4]
        assert writer.backlog_bytes == 0
        assert len(disk.threads) == 1
        nursery.cancel_scope.cancel()
    assert writer.counts.fsyncs == 2
    assert writer.counts.writes == 4
    assert writer.counts.logged_bytes == sum(write(ticket).batch.size for ticket in (1, 2, 3, 4))


async def test_backlog_counts_unreported_writes() -> None:
    disk = Disk()
    writer = Writer(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda ticket: None)
        writer.put([SnapshotChunk(1, bytes(100)), SnapshotChunk(2, bytes(50))])
        await disk.busy()
        assert writer.backlog_bytes == 150
        disk.go.release()
        while writer.backlog_bytes:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_a_failed_write_is_never_reported_and_nothing_after_it_is_tried() -> None:
    disk = Disk()
    reported: list[int] = []
    writer = Writer(disk)
    disk.error = StorageError("no space left")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, reported.append)
            writer.put([write(1)])
            await disk.busy()
            writer.put([write(2)])
            disk.go.release(2)

    with pytest.RaisesGroup(pytest.RaisesExc(StorageError, match="no space"), flatten_subgroups=True):
        await run()
    assert reported == []
    assert disk.performed == []


async def test_cancelling_waits_for_the_write_that_is_under_way() -> None:
    disk = Disk()
    writer = Writer(disk)
    async with trio.open_nursery() as outer:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await writer.run(lambda ticket: None)

        outer.start_soon(run)
        writer.put([write(1)])
        await disk.busy()
        scope.cancel()
        await trio.lowlevel.checkpoint()
        disk.go.release()
    assert disk.performed == [[1]]


async def test_job_runs_after_earlier_jobs() -> None:
    disk = Disk()
    reported: list[int] = []
    writer = Writer(disk)
    disk.go.release(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, reported.append)
        writer.put([write(1)])
        assert await writer.call(lambda: list(disk.performed)) == [[1]]
        assert await writer.call(threading.get_ident) in disk.threads
        nursery.cancel_scope.cancel()


async def test_a_job_that_fails_is_a_failure_of_the_disk() -> None:
    def fail() -> None:
        raise StorageError("cannot purge")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, lambda ticket: None)
            await writer.call(fail)

    writer = Writer(Disk())
    with pytest.RaisesGroup(pytest.RaisesExc(StorageError, match="cannot purge"), flatten_subgroups=True):
        await run()


class Quick:
    """A disk with a settable duration of a write in microseconds."""

    def __init__(self) -> None:
        self.performed: list[tuple[list[int], bool]] = []
        self.takes_us = 10
        self.now_us = 0
        self._loop = threading.get_ident()

    def perform(self, writes: Sequence[Write]) -> None:
        self.now_us += self.takes_us
        self.performed.append(([write.ticket for write in writes], threading.get_ident() == self._loop))

    def clock_ns(self) -> int:
        return self.now_us * 1000


async def test_on_a_quick_disk_an_append_is_durable_at_once() -> None:
    disk = Quick()
    reported: list[int] = []
    writer = Writer(disk, pause_us_max=10, clock_ns=disk.clock_ns)
    assert writer.put([write(1), write(2)])
    assert writer.put([write(3)])
    assert disk.performed == [([1, 2], True), ([3], True)]
    assert reported == []
    assert writer.backlog_bytes == 0
    assert (writer.counts.fsyncs, writer.counts.fsync_us, writer.counts.writes) == (2, 20, 3)


async def test_a_slow_write_sends_the_next_ones_to_the_thread_until_enough_were_quick() -> None:
    disk = Quick()
    reported: list[int] = []
    writer = Writer(disk, pause_us_max=10, clock_ns=disk.clock_ns)
    ticket = 0

    async def put() -> bool:
        nonlocal ticket
        ticket += 1
        if writer.put([write(ticket)]):
            return True
        while not reported or reported[-1] < ticket:
            await trio.lowlevel.checkpoint()
        return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, reported.append)
        disk.takes_us = 11
        assert await put()
        for _ in range(3):  # slow ones bring nothing nearer
            assert not await put()
        disk.takes_us = 10
        for _ in range(QUICK_WRITES):
            assert not await put()
        assert await put()
        nursery.cancel_scope.cancel()
    assert [here for _, here in disk.performed] == [True, *[False] * (3 + QUICK_WRITES), True]


async def test_loop_does_not_write_beside_the_thread() -> None:
    disk = Quick()
    reported: list[int] = []
    writer = Writer(disk, pause_us_max=10, clock_ns=disk.clock_ns)
    async with trio.open_nursery() as nursery:
        assert not writer.put([SnapshotChunk(1, b"long"), write(2)])
        assert not writer.put([write(3)])
        nursery.start_soon(writer.run, reported.append)
        while reported != [3]:
            await trio.lowlevel.checkpoint()
        assert writer.put([write(4)])
        async with trio.open_nursery() as beside:
            go = threading.Event()
            beside.start_soon(writer.call, go.wait)
            await trio.testing.wait_all_tasks_blocked()
            assert not writer.put([write(5)])
            go.set()
        while reported != [3, 5]:
            await trio.lowlevel.checkpoint()
        assert writer.put([write(6)])
        nursery.cancel_scope.cancel()
    assert disk.performed == [([1, 2, 3], False), ([4], True), ([5], False), ([6], True)]


async def test_immediate_failure_is_raised_at_the_call() -> None:
    disk = Disk()
    disk.error = StorageError("no space left")
    disk.go.release()
    with pytest.raises(StorageError, match="no space"):
        Writer(disk, pause_us_max=1).put([write(1)])
