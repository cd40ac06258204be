"""Snapshots of the member's machine, written while turns continue. After each, superfluous files are purged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio
from attrs import define, field

from zab.core.errors import StorageError
from zab.core.ready import Note
from zab.core.zxid import Zxid, show
from zab.host.logs import Log
from zab.host.pace import beside_the_loop
from zab.net.wakeup import Wakeup
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.runtime.writer import Writer
from zab.service.forwarding.pending_submissions import Done
from zab.service.health.status import SnapshotStatus
from zab.service.limits import Limits
from zab.service.snapshot_schedule import SnapshotSchedule
from zab.storage.snapshot_files import SnapshotWriter
from zab.storage.storage import Storage


@define(eq=False)
class SnapshotJob:
    """A snapshot that is being written, or about to be."""

    zxid: Zxid
    digest: int | None
    chunks: Iterable[bytes]
    spare: bool
    """True if the snapshot only serves a learner."""
    over: trio.Event = field(factory=trio.Event)
    """Set when the snapshot is complete or given up."""


class SnapshotTaker:
    """Writes the snapshots that its schedule has decided to take."""

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
        """`log_starts` receives the new beginning of the log after each purge. `chance` is passed to the schedule."""
        self.status = SnapshotStatus(storage.newest_snapshot)
        """The last finished snapshot, at first the newest on the disk, and the totals."""
        self.schedule = SnapshotSchedule(limits, chance)
        """Counts what is applied, and decides when a snapshot is taken."""
        self._storage = storage
        self._writer = writer
        """Runs the calls that create or delete files, in order with the writes of the log."""
        self._limits = limits
        self._log = log
        self._log_starts = log_starts
        self._environment = environment
        self._job: SnapshotJob | None = None
        """The snapshot that is being written, or about to be; None without one."""
        self._limiter = trio.CapacityLimiter(1)
        """Reserves a thread for snapshots, separate from the threads of other tasks."""
        self._wakeup = Wakeup()
        """Wakes `run` when `_job` is set."""

    async def run(self) -> None:
        """Write the snapshots that are started, one after the other."""
        while True:
            await self._wakeup.wait()
            if self._job is not None:
                await self._take(self._job)

    def start(self, zxid: Zxid, digest: int | None, snapshot: Callable[[], Iterable[bytes]]) -> None:
        """Begin the regular snapshot that is due, unless the history on the disk is unknown: see `SnapshotSchedule`."""
        if self.schedule.begin(self._storage.last):
            self._begin(SnapshotJob(zxid, digest, snapshot(), False))

    def start_spare(self, zxid: Zxid, digest: int | None, snapshot: Callable[[], Iterable[bytes]]) -> None:
        """If the schedule decides so, write the state that this leader sends to a learner also to a file."""
        storage = self._storage
        if self.schedule.begin_spare(zxid, storage.newest_snapshot, storage.newest_snapshot_bytes):
            self._begin(SnapshotJob(zxid, digest, snapshot(), True))

    def _begin(self, job: SnapshotJob) -> None:
        self._job = job
        self._wakeup.ring()

    async def wait_written(self, zxid: Zxid) -> None:
        """Wait until the snapshot at this zxid is complete or given up. Return at once if it is not being written."""
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
        waiting = self._end(job)
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
        for done in waiting:
            done(self.status, None)
        fields = (("zxid", show(zxid)), ("bytes", size), ("took_ms", took_ms), ("log_starts", show(start)))
        self._log.note(Note("snapshot", fields))

    def _end(self, job: SnapshotJob) -> list[Done]:
        self._job = None
        job.over.set()
        return self.schedule.end()


def _write(writer: SnapshotWriter, chunks: Iterable[bytes], check_cancelled: Callable[[], None]) -> int:
    size = 0
    try:
        for chunk in chunks:
            check_cancelled()  # so that a stopping member does not wait for a large snapshot
            writer.write(chunk)
            size += len(chunk)
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return size
