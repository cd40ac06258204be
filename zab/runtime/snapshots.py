"""Snapshots of this member's own machine, written beside the work, and the log that they make dispensable purged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio

from zab.core.errors import StorageError
from zab.core.ready import Note
from zab.core.zxid import UNKNOWN, Zxid, show
from zab.runtime.host import REAL_HOST, Host
from zab.runtime.limits import Limits
from zab.runtime.logs import Log
from zab.runtime.pace import beside_the_loop
from zab.runtime.status import SnapshotStatus
from zab.runtime.waiting import Waiter
from zab.runtime.writer import Writer
from zab.storage.snapshots import SnapshotWriter
from zab.storage.storage import Storage


class Snapshots:
    """Never two at once. `chance(n)` gives a number in [0, n]: members should not all do this at the same time."""

    def __init__(
        self,
        storage: Storage,
        writer: Writer,
        limits: Limits,
        log: Log,
        chance: Callable[[int], int],
        log_starts: Callable[[Zxid], None],
        host: Host = REAL_HOST,
    ) -> None:
        self.status = SnapshotStatus(storage.newest_snapshot)
        self._storage = storage
        self._writer = writer
        self._limits = limits
        self._log = log
        self._chance = chance
        self._log_starts = log_starts
        self._host = host
        self._entries = self._bytes = 0
        self._running = False
        self._asked: list[Waiter] = []
        self._promised: list[Waiter] = []
        """Those who wait for the one that is being written."""
        self._limiter = trio.CapacityLimiter(1)
        self._set_marks()

    def _set_marks(self) -> None:
        entries, size = self._limits.snap_entries, self._limits.snap_bytes
        self._entries_mark = entries // 2 + self._chance(entries // 2)
        self._bytes_mark = size // 2 + self._chance(size // 2)

    def count(self, entries: int, size: int) -> None:
        self._entries += entries
        self._bytes += size

    def restored(self) -> None:
        """A received snapshot is as good as one of our own."""
        self._entries = self._bytes = 0

    @property
    def due(self) -> bool:
        return not self._running and (
            self._entries >= self._entries_mark or self._bytes >= self._bytes_mark or bool(self._asked)
        )

    def ask(self) -> Waiter:
        """For one that begins from now on, whether it is time or not. Its status comes when it is durable."""
        waiter = Waiter()
        self._asked.append(waiter)
        return waiter

    def stop(self, error: Exception) -> None:
        """There will be no more of them, and the one under way is given up."""
        for waiter in (*self._promised, *self._asked):
            waiter.done(None, error)

    def _refuse(self) -> None:
        """This server knows of no history yet that it could have the state of. Whoever asks hears that."""
        asked, self._asked = self._asked, []
        for waiter in asked:
            waiter.done(
                None,
                StorageError(
                    "no snapshot is taken: what this server had on its disk was lost or damaged, and it waits for "
                    "the leader to give it another history; ask again when it serves"
                ),
            )

    def start(self, nursery: trio.Nursery, zxid: Zxid, digest: int, chunks: Iterable[bytes]) -> None:
        if self._storage.last == UNKNOWN:
            self._refuse()
            return
        self._running = True
        self._entries = self._bytes = 0
        self._set_marks()
        self._promised, self._asked = self._asked, []
        nursery.start_soon(self._take, zxid, digest, chunks)

    async def _take(self, zxid: Zxid, digest: int, chunks: Iterable[bytes]) -> None:
        began = trio.current_time()
        open_writer = partial(self._storage.snapshot_writer, zxid, digest)
        writer = await self._writer.call(open_writer)
        with beside_the_loop():
            size = await self._host.in_thread(
                partial(_write, writer, chunks, self._host.check_cancelled), limiter=self._limiter
            )
        start = await self._writer.call(partial(self._storage.purge, self._limits.snapshots_kept))
        self._log_starts(start)
        self._running = False
        took_ms = round((trio.current_time() - began) * 1000)
        last = self.status
        self.status = SnapshotStatus(
            zxid,
            self._host.wall_ms(),
            took_ms,
            size,
            last.taken + 1,
            last.total_ms + took_ms,
            max(last.most_ms, took_ms),
        )
        for waiter in self._promised:
            waiter.done(self.status)
        self._promised = []
        fields = (("zxid", show(zxid)), ("bytes", size), ("took_ms", took_ms), ("log_starts", show(start)))
        self._log.note(Note("snapshot", fields))


def _write(writer: SnapshotWriter, chunks: Iterable[bytes], check_cancelled: Callable[[], None]) -> int:
    size = 0
    try:
        for chunk in chunks:
            check_cancelled()  # a member that is being stopped does not wait for a large one
            writer.write(chunk)
            size += len(chunk)
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return size
