"""The one thread that writes. It takes whatever gathered while the last fsync ran, and reports the last ticket.

One thread, because the disk has to keep the order in which the node decided; and not a thread for every
write, because the hop to one costs as much as the write itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import trio

from zab.core.ready import Append, SnapshotChunk, Write
from zab.core.zxid import Ticket

T = TypeVar("T")


class Performs(Protocol):
    """As much of a `Storage` as is needed here."""

    def perform(self, writes: Sequence[Write]) -> None: ...


class WriterCounts:
    """Written by the thread, read by whoever asks for a status: whole numbers, each right by itself."""

    __slots__ = ("fsync_us", "fsync_us_max", "fsyncs", "logged_bytes", "writes")

    def __init__(self) -> None:
        self.fsyncs = self.fsync_us = self.fsync_us_max = self.writes = self.logged_bytes = 0


class Writer:
    """`put` what the node wants saved; `report(ticket)` is called in the event loop when it is durable.

    `backlog_bytes` is what was put and not reported yet. Whoever receives for the node waits while it is high.

    When the disk fails, `run` raises what it said, and nothing is ever reported again: what depended on a
    failed write is not acknowledged, whatever a later attempt would claim.
    """

    def __init__(self, storage: Performs, report: Callable[[Ticket], None]) -> None:
        self.counts = WriterCounts()
        self.backlog_bytes = 0
        self._storage = storage
        self._report = report
        self._queue: SimpleQueue[tuple[Sequence[Write], int] | Callable[[], None] | None] = SimpleQueue()

    def put(self, writes: Sequence[Write]) -> None:
        size = 0
        for write in writes:
            if type(write) is Append:
                size += len(write.batch.body)
            elif type(write) is SnapshotChunk:
                size += len(write.data)
        self.backlog_bytes += size
        self._queue.put((writes, size))

    async def call(self, job: Callable[[], T]) -> T:
        """Run something in the writing thread, in its turn."""
        done = trio.Event()
        outcome: list[Any] = []
        token = trio.lowlevel.current_trio_token()

        def run() -> None:
            outcome.append(job())
            token.run_sync_soon(done.set)

        self._queue.put(run)
        await done.wait()
        result: T = outcome[0]
        return result

    async def run(self) -> None:
        """Until cancelled. Returns when the thread has ended: it never outlives its member."""
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_cancelled)
            await trio.to_thread.run_sync(self._write, token, limiter=trio.CapacityLimiter(1))
            nursery.cancel_scope.cancel()

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._queue.put(None)

    def _write(self, token: trio.lowlevel.TrioToken) -> None:
        queue, storage, counts = self._queue, self._storage, self.counts
        going = True
        while going:
            gathered: list[Write] = []
            size = 0
            jobs: list[Callable[[], None]] = []
            item = queue.get()
            while True:
                if item is None:
                    going = False
                elif callable(item):
                    jobs.append(item)
                else:
                    gathered.extend(item[0])
                    size += item[1]
                if jobs or not going or queue.empty():
                    break
                item = queue.get_nowait()
            if gathered:
                began = time.perf_counter_ns()
                storage.perform(gathered)
                took = (time.perf_counter_ns() - began) // 1000
                self._report_soon(token, gathered[-1].ticket, size)
                counts.fsyncs += 1
                counts.fsync_us += took
                counts.fsync_us_max = max(counts.fsync_us_max, took)
                counts.writes += len(gathered)
                counts.logged_bytes += size
            for job in jobs:
                job()

    def _report_soon(self, token: trio.lowlevel.TrioToken, ticket: Ticket, size: int) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(self._saved, ticket, size)

    def _saved(self, ticket: Ticket, size: int) -> None:
        self.backlog_bytes -= size
        self._report(ticket)
