"""Write to the disk: in the event loop while the disk is fast, otherwise in one thread.

Handing a write to a thread costs as much as an fsync on a fast disk, plus contention for the interpreter. So appends
are written at once, in the event loop, as long as each write takes at most `Limits.pause_us_max`. After a slower
write, all writes go to the thread until it has made `QUICK_WRITES` quick ones. The thread takes all writes that
gathered during its last fsync, and reports the last ticket. There is only one thread, because the writes must keep the
order in which the node decided them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

import trio

from zab.core.ready import Append, SnapshotChunk, Write
from zab.core.zxid import Ticket

T = TypeVar("T")

QUICK_WRITES: Final = 8
"""The number of quick writes that the thread must make after a slow write in the loop, before the loop writes again."""
RECENT_MAX: Final = 512
"""The number of last writes whose times are kept for the status."""


class WriteTarget(Protocol):
    """The part of `Storage` that a writer uses."""

    def perform(self, writes: Sequence[Write]) -> None: ...


class WriterCounts:
    """Counters of a writer.

    The event loop or the thread changes them, and status requests read them; each counter by itself is consistent.
    """

    __slots__ = ("fsync_us", "fsync_us_max", "fsyncs", "logged_bytes", "recent_us", "writes")

    def __init__(self) -> None:
        self.fsyncs = self.fsync_us = self.fsync_us_max = self.writes = self.logged_bytes = 0
        self.recent_us: deque[int] = deque(maxlen=RECENT_MAX)


class Writer:
    """Writes to the disk for a node, in the event loop or in a thread.

    `put` takes the writes. They are durable at once, or `report(ticket)` is called when they are.

    `pause_us_max` is how long a write may hold up the event loop. After a longer one, the thread has to make
    `QUICK_WRITES` quick writes before the loop writes again. 0: all writes go to the thread. Writes other than appends
    always do, and so does every write while the thread has work.

    `backlog_bytes` counts the bytes that were put and are not durable yet. Receivers pause while it is high.

    When the disk fails, `put` or `run` raises the error. After an error in the thread, no further write is made or
    reported as durable.
    """

    def __init__(
        self,
        storage: WriteTarget,
        pause_us_max: int = 0,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.counts = WriterCounts()
        self.backlog_bytes = 0
        self._storage = storage
        self._pause_us_max = pause_us_max
        self._clock_ns = clock_ns
        self._quick_required = 0
        """The number of quick writes of the thread that are still required before a write in the loop."""
        self._in_thread = 0
        """The number of writes and calls that the thread has not reported. Above 0, only the thread uses the disk."""
        self._queue: SimpleQueue[tuple[Sequence[Write], int] | Callable[[], None] | None] = SimpleQueue()

    def put(self, writes: Sequence[Write]) -> bool:
        """Write, or hand the writes to the thread. Return True if they are already durable: then no report follows."""
        size = 0
        rare = False
        for write in writes:
            if type(write) is Append:
                size += len(write.batch.body)
            elif type(write) is SnapshotChunk:
                size += len(write.data)
                rare = True
            else:
                rare = True
        if self._pause_us_max and not (rare or self._quick_required or self._in_thread):
            if self._perform(writes, size) > self._pause_us_max:
                self._quick_required = QUICK_WRITES
            return True
        self.backlog_bytes += size
        self._in_thread += 1
        self._queue.put((writes, size))
        return False

    async def call(self, job: Callable[[], T]) -> T:
        """Run a function in the writing thread, after the writes that were put before. Return its result.

        If it raises an error, `run` raises that error, and this call only ends when it is cancelled.
        """
        done = trio.Event()
        outcome: list[Any] = []
        token = trio.lowlevel.current_trio_token()

        def finished() -> None:
            self._in_thread -= 1
            done.set()

        def run() -> None:
            outcome.append(job())
            token.run_sync_soon(finished)

        self._in_thread += 1
        self._queue.put(run)
        await done.wait()
        result: T = outcome[0]
        return result

    async def run(self, report: Callable[[Ticket], None]) -> None:
        """Write until cancelled. Return when the thread has ended, so that it never outlives its member.

        `report` is called in the event loop with the last ticket that has become durable in the thread.
        """
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._stop_when_cancelled)
            await trio.to_thread.run_sync(self._write, token, report, limiter=trio.CapacityLimiter(1))
            nursery.cancel_scope.cancel()

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._queue.put(None)

    def _write(self, token: trio.lowlevel.TrioToken, report: Callable[[Ticket], None]) -> None:
        queue = self._queue
        going = True
        while going:
            gathered: list[Write] = []
            count = size = 0
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
                    count += 1
                if jobs or not going or queue.empty():
                    break
                item = queue.get_nowait()
            if gathered:
                took_us = self._perform(gathered, size)
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(self._saved, report, gathered[-1].ticket, count, size, took_us)
            for job in jobs:
                job()

    def _perform(self, writes: Sequence[Write], size: int) -> int:
        """Perform the writes and return the microseconds that they took."""
        counts = self.counts
        began = self._clock_ns()
        self._storage.perform(writes)
        took_us = (self._clock_ns() - began) // 1000
        counts.fsyncs += 1
        counts.fsync_us += took_us
        counts.recent_us.append(took_us)
        counts.fsync_us_max = max(counts.fsync_us_max, took_us)
        counts.writes += len(writes)
        counts.logged_bytes += size
        return took_us

    def _saved(self, report: Callable[[Ticket], None], ticket: Ticket, count: int, size: int, took_us: int) -> None:
        self._in_thread -= count
        self.backlog_bytes -= size
        if self._quick_required and took_us <= self._pause_us_max:
            self._quick_required -= 1
        report(ticket)
