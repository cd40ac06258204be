"""The durability of a log: the recovery point, and the flushes that move it.

A flush makes the batches, their indexes, the leader epochs and the file names durable, and then moves the recovery
point. Recovery never truncates before the recovery point, and reports missing records there as damage.

A flush has three steps, because the slow one runs concurrently with appends, truncations, cleaning and other flushes:
`begin` collects the files, `write_out` syncs them, `finish` moves the recovery point unless the log was truncated
meanwhile. `UnifiedLog` holds its lock for all steps but `write_out`.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from replica.core.partitions.log_config import LogConfig
from replica.storage.files import sync
from replica.storage.leader_epochs import LeaderEpochFileCache
from replica.storage.log_segment import LOG, SUFFIXES
from replica.storage.log_segments import LogSegments
from replica.storage.transaction_index import ABORTED

FLUSH_BYTES: Final = 64 << 20
"""The appended bytes of one log after which a flush is due, even if `flush.messages` and `flush.ms` allow more. It
limits how much of a log is not durable."""


@frozen(eq=False)
class PendingFlush:
    """A flush between `begin` and `finish`.

    target          the log end offset when it began
    truncations     `LogFlusher.truncations` when it began
    newest_base     the base offset of the active segment when it began
    paths           the files to sync
    metadata        those of `paths` that `add_file` named
    names_changed   True if the folder must be synced, too
    """

    target: int
    truncations: int
    newest_base: int
    paths: tuple[str, ...]
    metadata: tuple[str, ...]
    names_changed: bool


class LogFlusher:
    """The durability of one log.

    recovery_point   all records before it are durable
    truncations      the number of truncations: a flush that began before a truncation does not move the recovery point
    names_changed    True if the folder may have file names that are not durable yet
    _metadata        other files in the folder that the next flush must sync before it moves the recovery point
    _pending         unfinished flushes, in several threads
    _idle_since_ms   the time from which `flush.ms` counts, set by `is_due`; None: `is_due` was not called
                     since the last completed flush
    _flushed_bytes   the segments' `appended_bytes` when the last flush began
    """

    def __init__(self, segments: LogSegments, epochs: LeaderEpochFileCache, recovery_point: int) -> None:
        self.recovery_point = recovery_point
        self.truncations = 0
        self.names_changed = True
        self._segments = segments
        self._epochs = epochs
        self._files = segments.files
        self._metadata: tuple[str, ...] = ()
        self._pending: list[PendingFlush] = []
        self._idle_since_ms: int | None = None
        self._flushed_bytes = 0

    def is_due(self, end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Return whether a flush is due: because of `flush.messages`, `flush.ms`, `FLUSH_BYTES`, or a closed segment
        that is not durable. Return False if all records are durable."""
        unflushed = end_offset - self.recovery_point
        if unflushed <= 0:
            self._idle_since_ms = now_ms
            return False
        if self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        return (
            unflushed >= config.flush_messages
            or now_ms - self._idle_since_ms >= config.flush_ms
            or self._segments.appended_bytes - self._flushed_bytes >= FLUSH_BYTES
            or self.recovery_point < self._segments.active.base
        )

    def add_file(self, path: str) -> None:
        """Add a file of the folder that the next flush must sync before it moves the recovery point."""
        self._metadata = (*self._metadata, path)
        self.names_changed = True

    def truncated(self, offset: int) -> None:
        """Lower the recovery point to this offset, if it is higher, before records from there on are truncated."""
        self.recovery_point = min(self.recovery_point, offset)
        self.truncations += 1

    def restarted_at(self, offset: int) -> None:
        """Set the recovery point to this offset, at which the log starts anew without records."""
        self.recovery_point = offset

    # -- the steps of a flush ----------------------------------------------------------------------

    def begin(self, end_offset: int) -> PendingFlush:
        """Collect the files to sync. Include those of unfinished earlier flushes: this flush may finish first, and its
        target covers their records."""
        active = self._segments.active
        paths = [
            segment.path(suffix)
            for segment in self._segments
            if segment.end > self.recovery_point or segment is active
            for suffix in SUFFIXES
            if suffix == LOG or segment.indexes_changed
        ]
        paths.extend(segment.path(ABORTED) for segment in self._segments if segment.aborted_changed)
        for segment in self._segments:
            segment.indexes_changed = segment.aborted_changed = False
        self._flushed_bytes = self._segments.appended_bytes
        if self._epochs.unsynced:
            paths.append(self._epochs.path)
            self._epochs.unsynced = False
        metadata, self._metadata = self._metadata, ()
        paths.extend(metadata)
        names_changed, self.names_changed = self.names_changed, False
        if self._pending:
            paths.extend(self._of_pending(paths))
            names_changed = names_changed or any(flush.names_changed for flush in self._pending)
        begun = PendingFlush(end_offset, self.truncations, active.base, tuple(paths), metadata, names_changed)
        self._pending.append(begun)
        return begun

    def _of_pending(self, paths: list[str]) -> list[str]:
        """Return the files of unfinished flushes that still exist and are not among `paths`."""
        here = self._current_paths()
        taken = dict.fromkeys(path for flush in self._pending for path in flush.paths if path in here)
        return [path for path in taken if path not in paths]

    def _current_paths(self) -> set[str]:
        paths = {
            segment.path(suffix)
            for segment in self._segments
            for suffix in (*SUFFIXES, ABORTED)
            if suffix != ABORTED or segment.has_aborted
        }
        paths.add(self._epochs.path)
        paths.update(path for flush in self._pending for path in flush.metadata)
        return paths

    def write_out(self, flush: PendingFlush) -> None:
        """Sync the files. Needs no lock. Raises `MissingFile` if one is gone."""
        for path in flush.paths:
            sync(self._files, path)
        if flush.names_changed:
            self._files.sync_dir(self._segments.folder)
            self._files.sync_dir("")  # the folder itself may be new

    def is_outdated(self, flush: PendingFlush) -> bool:
        """Return whether the log was truncated since the flush began, or retention or the cleaner removed one of the
        flush's files."""
        current = self._current_paths()
        return flush.truncations != self.truncations or any(path not in current for path in flush.paths)

    def cancel(self, flush: PendingFlush) -> None:
        """Put back the files of a failed flush, so that the next flush syncs them."""
        self._pending.remove(flush)
        self.names_changed = self._epochs.unsynced = True
        self._metadata = (*flush.metadata, *self._metadata)
        for segment in self._segments:
            segment.indexes_changed = True
            segment.aborted_changed = segment.has_aborted

    def finish(self, flush: PendingFlush) -> None:
        """Move the recovery point. If the log was truncated since the flush began, leave the recovery point: it is
        unknown which records became durable."""
        self._pending.remove(flush)
        if flush.truncations == self.truncations:
            self._segments.flushed(flush.newest_base if flush.names_changed else None)
            self.recovery_point = max(self.recovery_point, flush.target)
            self._idle_since_ms = None
