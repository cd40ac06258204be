"""Snapshots of the member's machine, written beside the turns. After each, the log that it covers is purged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio
from attrs import define, field

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


class SnapshotSchedule:
    """The work since the last snapshot, and the marks at which the next one is due."""

    def __init__(self, limits: Limits, chance: Callable[[int], int]) -> None:
        """`chance(n)` returns a number in [0, n], so that not all members take their snapshots at the same time."""
        self._limits = limits
        self._chance = chance
        self._entries = self.bytes = 0
        """Applied since the last snapshot. One is due when either reaches its mark."""
        self._set_marks()

    def _set_marks(self) -> None:
        entries, size = self._limits.snap_entries, self._limits.snap_bytes
        self._entries_mark = entries // 2 + self._chance(entries // 2)
        self._bytes_mark = size // 2 + self._chance(size // 2)

    def count(self, entries: int, size: int) -> None:
        self._entries += entries
        self.bytes += size

    def restored(self) -> None:
        """Count from 0 again: a received snapshot replaces one of our own."""
        self._entries = self.bytes = 0

    def begun(self) -> None:
        """Count from 0 again, up to other marks: a snapshot begins."""
        self._entries = self.bytes = 0
        self._set_marks()

    @property
    def due(self) -> bool:
        return self._entries >= self._entries_mark or self.bytes >= self._bytes_mark


@define(eq=False)
class SnapshotJob:
    """A snapshot that is being written, or about to be."""

    zxid: Zxid
    digest: int
    chunks: Iterable[bytes]
    spare: bool
    """Whether it is for a learner only, and has no waiters."""
    waiters: list[Waiter]
    over: trio.Event = field(factory=trio.Event)
    """Set when the snapshot is complete or given up."""


class SnapshotTaker:
    """Decides when a snapshot is taken, and writes one at a time."""

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
        """`log_starts` is called with the new beginning of the log after each purge. `chance`: see the schedule."""
        self.status = SnapshotStatus(storage.newest_snapshot)
        """The last finished snapshot, and the totals."""
        self.schedule = SnapshotSchedule(limits, chance)
        """Counts what is applied, and decides when the next regular snapshot is due."""
        self._storage = storage
        self._writer = writer
        """Runs what changes the list of files, in turn with the writes of the log."""
        self._limits = limits
        self._log = log
        self._log_starts = log_starts
        self._environment = environment
        self._job: SnapshotJob | None = None
        """The snapshot that is being written, or about to be; None: none is."""
        self._asked: list[Waiter] = []
        """Waiters for a snapshot that has not begun."""
        self._limiter = trio.CapacityLimiter(1)
        """Keeps a thread for the snapshots, apart from those of other tasks."""
        self._wakeup = Wakeup()
        """Rung when `_job` is set."""

    @property
    def due(self) -> bool:
        return self._job is None and (self.schedule.due or bool(self._asked))

    def ask(self) -> Waiter:
        """Request a snapshot that begins from now on, even if none is due. Return the waiter for its status."""
        waiter = Waiter()
        self._asked.append(waiter)
        return waiter

    def stop(self, error: Exception) -> None:
        """Fail all waiters: the snapshot under way is given up, and no other begins."""
        promised = () if self._job is None else self._job.waiters
        for waiter in (*promised, *self._asked):
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
            if self._job is not None:
                await self._take(self._job)

    def start(self, zxid: Zxid, digest: int, chunks: Iterable[bytes]) -> None:
        if self._storage.last == UNKNOWN:
            self._refuse()
            return
        self.schedule.begun()
        waiters, self._asked = self._asked, []
        self._begin(SnapshotJob(zxid, digest, chunks, False, waiters))

    def start_spare(self, zxid: Zxid, digest: int, snapshot: Callable[[], Iterable[bytes]]) -> None:
        """Also write the snapshot that a learner receives: if the link breaks, the rest is read from the file.

        It changes neither when the next snapshot is due nor what is purged. A small state gets no spare.
        """
        storage = self._storage
        size = storage.newest_snapshot_bytes + self.schedule.bytes  # at least the state, unless nodes are overwritten
        if self._job is None and storage.newest_snapshot != zxid and size >= self._limits.resume_bytes_min:
            self._begin(SnapshotJob(zxid, digest, snapshot(), True, []))

    def _begin(self, job: SnapshotJob) -> None:
        assert self._job is None, "one snapshot is written at a time"
        self._job = job
        self._wakeup.ring()

    async def wait_written(self, zxid: Zxid) -> None:
        """Wait until the snapshot at this zxid is complete, or was given up, if it is being written."""
        job = self._job
        if job is not None and job.zxid == zxid:
            await job.over.wait()

    async def _take(self, job: SnapshotJob) -> None:
        began, zxid = trio.current_time(), job.zxid
        open_writer = partial(self._storage.snapshot_writer, zxid, job.digest)
        writer = await self._writer.call(open_writer)
        try:
            with beside_the_loop():
                size = await self._environment.in_thread(
                    partial(_write, writer, job.chunks, self._environment.check_cancelled), limiter=self._limiter
                )
        except StorageError as error:
            if not job.spare:
                raise
            self._log.say("snapshot_not_written", "warning", zxid=show(zxid), why=error)
            self._end(job)
            return
        purge = partial(self._storage.purge, self._limits.snapshots_kept, zxid if job.spare else None)
        start = await self._writer.call(purge)
        self._log_starts(start)
        self._end(job)
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
        for waiter in job.waiters:
            waiter.done(self.status)
        fields = (("zxid", show(zxid)), ("bytes", size), ("took_ms", took_ms), ("log_starts", show(start)))
        self._log.note(Note("snapshot", fields))

    def _end(self, job: SnapshotJob) -> None:
        self._job = None
        job.over.set()


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
