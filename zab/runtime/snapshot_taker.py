"""Snapshots of the member's machine, written beside the turns. After each, the log that it covers is purged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio

from zab.core.errors import StorageError
from zab.core.ready import Note
from zab.core.zxid import UNKNOWN, Zxid, show
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.net.wakeup import Wakeup
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.status import SnapshotStatus
from zab.runtime.waiter import Waiter
from zab.runtime.writer import Writer
from zab.service.limits import Limits
from zab.storage.snapshot_files import SnapshotWriter
from zab.storage.storage import Storage


class SnapshotTaker:
    """Decides when a snapshot is due, and writes one at a time."""

    def __init__(
        self,
        storage: Storage,
        writer: Writer,
        limits: Limits,
        log: Log,
        chance: Callable[[int], int],
        log_starts: Callable[[Zxid], None],
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        """`chance(n)` returns a number in [0, n], so that not all members take their snapshots at the same time."""
        self.status = SnapshotStatus(storage.newest_snapshot)
        self._storage = storage
        self._writer = writer
        self._limits = limits
        self._log = log
        self._chance = chance
        self._log_starts = log_starts
        self._environment = environment
        self._entries = self._bytes = 0
        """Applied since the last snapshot. One is due when either reaches its mark."""
        self._running: Zxid | None = None
        """The zxid of the snapshot that is being written, or about to be; None: none is."""
        self._done = trio.Event()
        """Set when the snapshot that is being written is complete or given up."""
        self._asked: list[Waiter] = []
        """Waiters for a snapshot that has not begun."""
        self._promised: list[Waiter] = []
        """The waiters for the snapshot that is being written."""
        self._limiter = trio.CapacityLimiter(1)
        self._next: tuple[Zxid, int, Iterable[bytes], bool] | None = None
        """The snapshot that `run` writes next: zxid, digest, chunks, and whether it is a spare."""
        self._wakeup = Wakeup()
        self._set_marks()

    def _set_marks(self) -> None:
        entries, size = self._limits.snap_entries, self._limits.snap_bytes
        self._entries_mark = entries // 2 + self._chance(entries // 2)
        self._bytes_mark = size // 2 + self._chance(size // 2)

    def count(self, entries: int, size: int) -> None:
        self._entries += entries
        self._bytes += size

    def restored(self) -> None:
        """Count from 0 again: a received snapshot replaces one of our own."""
        self._entries = self._bytes = 0

    @property
    def due(self) -> bool:
        return self._running is None and (
            self._entries >= self._entries_mark or self._bytes >= self._bytes_mark or bool(self._asked)
        )

    def ask(self) -> Waiter:
        """Request a snapshot that begins from now on, even if none is due. Return the waiter for its status."""
        waiter = Waiter()
        self._asked.append(waiter)
        return waiter

    def stop(self, error: Exception) -> None:
        """Fail all waiters: the snapshot under way is given up, and no other begins."""
        for waiter in (*self._promised, *self._asked):
            waiter.done(None, error)

    def _refuse(self) -> None:
        """Fail the waiters: this server has no history yet whose state could be saved."""
        asked, self._asked = self._asked, []
        for waiter in asked:
            waiter.done(
                None,
                StorageError(
                    "no snapshot is taken: the history on the disk of this server was lost or damaged, and the leader "
                    "has not sent another one yet; try again when this server serves"
                ),
            )

    async def run(self) -> None:
        """Write the snapshots that are started, one after the other."""
        while True:
            await self._wakeup.wait()
            if self._next is not None:
                (zxid, digest, chunks, spare), self._next = self._next, None
                await self._take(zxid, digest, chunks, spare)

    def start(self, zxid: Zxid, digest: int, chunks: Iterable[bytes]) -> None:
        if self._storage.last == UNKNOWN:
            self._refuse()
            return
        self._running, self._done = zxid, trio.Event()
        self._entries = self._bytes = 0
        self._set_marks()
        self._promised, self._asked = self._asked, []
        self._next = (zxid, digest, chunks, False)
        self._wakeup.ring()

    def start_spare(self, zxid: Zxid, digest: int, snapshot: Callable[[], Iterable[bytes]]) -> None:
        """Also write the snapshot that a learner receives: if the link breaks, the rest is read from the file.

        It changes neither when the next snapshot is due nor what is purged. A small state gets no spare.
        """
        storage = self._storage
        size = storage.newest_snapshot_bytes + self._bytes  # no less than the state, if it is not made of overwrites
        if self._running is None and storage.newest_snapshot != zxid and size >= self._limits.resume_bytes_min:
            self._running, self._done = zxid, trio.Event()
            self._next = (zxid, digest, snapshot(), True)
            self._wakeup.ring()

    async def wait_written(self, zxid: Zxid) -> None:
        """Wait until the snapshot at this zxid is complete, or was given up, if it is being written."""
        if self._running == zxid:
            await self._done.wait()

    async def _take(self, zxid: Zxid, digest: int, chunks: Iterable[bytes], spare: bool) -> None:
        began = trio.current_time()
        open_writer = partial(self._storage.snapshot_writer, zxid, digest)
        writer = await self._writer.call(open_writer)
        try:
            with beside_the_loop():
                size = await self._environment.in_thread(
                    partial(_write, writer, chunks, self._environment.check_cancelled), limiter=self._limiter
                )
        except StorageError as error:
            if not spare:
                raise
            self._log.say("snapshot_not_written", "warning", zxid=show(zxid), why=error)
            self._finished()
            return
        purge = partial(self._storage.purge, self._limits.snapshots_kept, zxid if spare else None)
        start = await self._writer.call(purge)
        self._log_starts(start)
        self._finished()
        took_ms = round((trio.current_time() - began) * 1000)
        last = self.status
        self.status = SnapshotStatus(
            zxid,
            self._environment.wall_ms(),
            took_ms,
            size,
            last.taken + 1,
            last.total_ms + took_ms,
            max(last.most_ms, took_ms),
        )
        if not spare:
            for waiter in self._promised:
                waiter.done(self.status)
            self._promised = []
        fields = (("zxid", show(zxid)), ("bytes", size), ("took_ms", took_ms), ("log_starts", show(start)))
        self._log.note(Note("snapshot", fields))

    def _finished(self) -> None:
        self._running = None
        self._done.set()


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
