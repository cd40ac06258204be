"""A partition's log in files: when what is in it is durable, and when it goes.

An append is one write into the page cache. `flush` makes everything before it durable, from any thread, and moves the
recovery point: what stands before it is never cut by a recovery, and its loss is told as damage.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from attrs import frozen

from replica.core.errors import KafkaError
from replica.core.partition_log import LogAppendInfo
from replica.storage import hints
from replica.storage.aborted import ABORTED
from replica.storage.checkpoints import EPOCHS
from replica.storage.config import UNBOUNDED, LogConfig
from replica.storage.files import DamagedLog, Handles, MissingFile, sync
from replica.storage.growing_log import NO_MARKS, GrowingLog, Marks
from replica.storage.segment import LOG, SUFFIXES, Segment, file_name
from replica.storage.unified_log import Placed

DELETED: Final = ".deleted"
SNAPSHOT_BYTES: Final = 8 << 20
"""So much is at most read again at a start to know the producers, besides what was not flushed."""
FLUSH_BYTES: Final = 64 << 20
"""So much of one log is at most checked again at a start, whatever the topic says about flushing."""


@frozen(eq=False)
class Flush:
    """One that has begun: up to where it reaches if nothing is cut, and what has to be synced for that."""

    target: int
    cuts: int
    newest: int
    """Where the newest segment begins."""
    paths: tuple[str, ...]
    beside: tuple[str, ...]
    names_changed: bool


class FileLog(GrowingLog):
    """Made by `replica.storage.recovery.open_log`."""

    def __init__(
        self,
        name: str,
        config: LogConfig,
        handles: Handles,
        folder: str,
        segments: list[Segment],
        start: int,
        marks: Marks = NO_MARKS,
    ) -> None:
        super().__init__(name, config, handles, folder, segments, start, marks)
        self.notes: list[str] = []
        self.doomed: list[tuple[str, int]] = []
        self._beside: tuple[str, ...] = ()
        self._under_way: list[Flush] = []
        self._last_flush_ms: int | None = None
        self.uncleanable: KafkaError | None = None
        """What the cleaner found: it leaves this log alone from then on."""

    def _read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes:
        try:
            return super()._read(offset, max_bytes, upto, at_least_one)
        except DamagedLog as error:
            self.damage = error
            raise

    # -- durability --------------------------------------------------------------------------------

    def _append(self, buffer: bytes | bytearray, placed: list[Placed], append_time: int) -> LogAppendInfo:
        """With a bound on what may be lost, an append does not return before it is kept: it is acknowledged next."""
        appended = super()._append(buffer, placed, append_time)
        if self._end - self.recovery_point >= self._config.flush_messages:
            self.flush()
        return appended

    def flush_due(self, now_ms: int) -> bool:
        """By `flush.messages` and `flush.ms`, or because much is not durable yet, or a closed segment."""
        behind = self._end - self.recovery_point
        if behind <= 0:
            self._last_flush_ms = now_ms
            return False
        if self._last_flush_ms is None:
            self._last_flush_ms = now_ms
        return (
            behind >= self.config.flush_messages
            or now_ms - self._last_flush_ms >= self.config.flush_ms
            or self._since_flush >= FLUSH_BYTES
            or self.recovery_point < self._segments[-1].base
        )

    def keep_beside(self, path: str) -> None:
        """A file of its folder that is to be durable before any record is."""
        with self._lock:
            self._beside = (*self._beside, path)
            self._names_changed = True

    def flush(self) -> int:
        begun = self.begin_flush()
        if begun is not None and self.write_out(begun):
            self.end_flush(begun)
        return self.recovery_point

    def begin_flush(self) -> Flush | None:
        """What there is to do now; None: nothing. It is cut, cleaned and written to while it is being done."""
        with self._lock:
            self._usable()
            target = self._end
            if target <= self.recovery_point and not self._names_changed:
                return None
            self._say_what_was_aborted()
            paths = [
                segment.path(suffix)
                for segment in self._segments
                if segment.end > self.recovery_point or segment is self._segments[-1]
                for suffix in SUFFIXES
                if suffix == LOG or segment.indexes_changed
            ]
            paths.extend(segment.path(ABORTED) for segment in self._segments if segment.aborted_changed)
            for segment in self._segments:
                segment.indexes_changed = segment.aborted_changed = False
            self._since_flush = 0
            if self._epochs_written:
                paths.append(f"{self.folder}/{EPOCHS}")
                self._epochs_written = False
            beside, self._beside = self._beside, ()
            paths.extend(beside)
            names_changed, self._names_changed = self._names_changed, False
            if self._under_way:
                paths.extend(self._taken_on(paths))
                names_changed = names_changed or any(flush.names_changed for flush in self._under_way)
            if self._since_snapshot >= SNAPSHOT_BYTES:
                self._write_snapshot(target)
            begun = Flush(target, self.cuts, self._bases[-1], tuple(paths), beside, names_changed)
            self._under_way.append(begun)
            return begun

    def _taken_on(self, paths: list[str]) -> list[str]:
        """By flushes that another thread has begun: whoever ends before them says that this is durable, too."""
        here = {segment.path(suffix) for segment in self._segments for suffix in (*SUFFIXES, ABORTED)}
        here.add(f"{self.folder}/{EPOCHS}")
        here.update(path for flush in self._under_way for path in flush.beside)
        taken = dict.fromkeys(path for flush in self._under_way for path in flush.paths if path in here)
        return [path for path in taken if path not in paths]

    def write_out(self, flush: Flush) -> bool:
        """The slow part, which holds nobody up. False: a file is gone, as it was cut or cleaned meanwhile; the next
        flush sees what there is then."""
        try:
            for path in flush.paths:
                sync(self.files, path)
            if flush.names_changed:
                self.files.sync_dir(self.folder)
                self.files.sync_dir("")  # the folder itself may be new
        except MissingFile:
            with self._lock:
                self._under_way.remove(flush)
                self._names_changed = self._epochs_written = True
                self._beside = (*flush.beside, *self._beside)
                for segment in self._segments:
                    segment.indexes_changed = True
                    segment.aborted_changed = segment.has_aborted
                if flush.cuts == self.cuts:
                    raise
                return False
        return True

    def end_flush(self, flush: Flush) -> None:
        """Of a log that was cut meanwhile nobody knows what has become durable: not what was cut off, at any rate."""
        with self._lock:
            self._under_way.remove(flush)
            if flush.cuts == self.cuts:
                self._cut_back = False
                self.recovery_point = max(self.recovery_point, flush.target)
                if flush.names_changed:
                    self._named = max(self._named, flush.newest)
                self._last_flush_ms = None

    def close(self) -> None:
        """Orderly: all is durable, and the next start need not read it again."""
        with self._lock:
            if self.closed:
                return
            self._segments[-1].note_time()
            if self._end > 0:
                self._write_snapshot(self._end)
            self._names_changed = True
            self.flush()
            self.abandon()

    def abandon(self) -> None:
        """Its files are left as they are."""
        with self._lock:
            self.closed = True
            self.handles.forget_folder(self.folder)

    # -- retention ---------------------------------------------------------------------------------

    def retire(self, now_ms: int, high_watermark: int, *, at_once: bool = False) -> int:
        """Segments that are too old, too many, or before the start go, the oldest first; returns how many. Their files
        stay for a while, for who is reading there; `at_once`: nobody is, and their room is needed."""
        with self._lock:
            self._usable()
            gone, size = 0, self.size
            while (segment := self._segments[0]).size and self._may_go(segment, size, now_ms, high_watermark):
                size -= segment.size
                if len(self._segments) == 1:
                    self._roll(self._end)
                self._retire_first(now_ms, at_once)
                gone += 1
            if gone:
                self._names_changed = True
                self._remove_snapshots(lambda at: at < self._bases[0])
                if self._bases[0] > self._start:
                    self.increment_start_offset(self._bases[0])
            return gone

    def _may_go(self, segment: Segment, size: int, now_ms: int, high_watermark: int) -> bool:
        if segment.end > high_watermark:
            return False
        if segment.end <= self._start:
            return True
        if not self.config.delete:
            return False
        if self.config.retention_bytes != UNBOUNDED and size - segment.size >= self.config.retention_bytes:
            return True
        if self.config.retention_ms == UNBOUNDED:
            return False
        newest = hints.newest(segment, now_ms - self.config.retention_ms)
        if newest < 0:
            newest = self.files.stats(self.folder)[file_name(segment.base, LOG)].modified_ms or now_ms
        return now_ms - newest > self.config.retention_ms

    def _retire_first(self, now_ms: int, at_once: bool) -> None:
        """When the one before it is durably gone: between two that are left nothing may be missing."""
        self.files.sync_dir(self.folder)
        self._named = self._bases[-1]
        segment = self._segments.pop(0)
        self._bases.pop(0)
        for suffix in segment.suffixes:
            self.handles.forget(segment.path(suffix))
            if at_once:
                self.files.discard(segment.path(suffix))
            else:
                self.doom(segment.path(suffix), now_ms)
        self._hints.clear()

    def doom(self, path: str, now_ms: int) -> None:
        """It is deleted when `sweep` finds its time come."""
        with suppress(MissingFile):
            self.files.open(path).close()
            self.files.rename(path, path + DELETED)
            with self._lock:
                self.doomed.append((path + DELETED, now_ms + self.config.file_delete_delay_ms))

    def sweep(self, now_ms: int) -> None:
        with self._lock:
            due = [path for path, when in self.doomed if when <= now_ms]
            self.doomed = [each for each in self.doomed if each[1] > now_ms]
        for path in due:
            self.files.discard(path)

    def roll_if_old(self, now_ms: int) -> None:
        """A segment that nobody adds to is closed by the clock."""
        with self._lock:
            first = self._segments[-1].first_time() if self._segments[-1].size else -1
            if first >= 0 and now_ms - first > self.config.segment_ms - self.config.segment_jitter_ms:
                self.roll()

    def replace(self, bases: list[int], size: int, end: int) -> None:
        """The cleaner has put one segment in the place of these."""
        at = self._bases.index(bases[0])
        segment = Segment(self.handles, self.folder, bases[0], size, end)
        segment.has_aborted = any(each.has_aborted for each in self._segments[at : at + len(bases)])
        self._segments[at : at + len(bases)] = [segment]
        self._bases[at : at + len(bases)] = [bases[0]]
        self._hints.clear()

    def was_cut_since(self, cuts: int, segments: list[Segment]) -> bool:
        """For who looks at closed segments beside the thread that owns the log: they are not what they were."""
        with self._lock:
            return self.closed or self.cuts != cuts or any(each.base not in self._bases for each in segments)
