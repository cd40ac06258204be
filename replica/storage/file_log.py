"""A partition's log in files: segments that are rolled, indexed, flushed and given up; what is durable is written down.

An append is one write into the page cache. `flush` makes everything before it durable, from any thread, and moves the
recovery point: what stands before it is never cut by a recovery, and its loss is told as damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from replica.core.log import Appended
from replica.storage.checkpoints import EPOCHS, encode
from replica.storage.config import RELATIVE_MAX, UNBOUNDED, LogConfig
from replica.storage.files import Handles, MissingFile, StorageFailure, read_all, sync, write_atomically
from replica.storage.partition_log import Candidate, PartitionLog, Placed, remember
from replica.storage.producers import Producers
from replica.storage.segment import LOG, SUFFIXES, Segment, file_name
from replica.wire.batch import Header

SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
SNAPSHOT_BYTES: Final = 8 << 20
"""So much is at most read again at a start to know the producers, besides what was not flushed."""
FLUSH_BYTES: Final = 64 << 20
"""So much of one log is at most checked again at a start, whatever the topic says about flushing."""
_HINTS_MAX: Final = 16


class FileLog(PartitionLog):
    """Made by `replica.storage.recovery.open_log`. `lower_recovery_point` is called before flushed records are cut
    off, and has made durable that they may be missing.
    """

    def __init__(
        self,
        name: str,
        config: LogConfig,
        handles: Handles,
        folder: str,
        segments: list[Segment],
        start: int,
        lower_recovery_point: Callable[[int], None] = lambda offset: None,
    ) -> None:
        super().__init__(name, config, start)
        self.handles = handles
        self.files = handles.files
        self.folder = folder
        self.closed = False
        self.notes: list[str] = []
        self.doomed: list[tuple[str, int]] = []
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._end = segments[-1].end
        self.recovery_point = self._end
        self._lower_recovery_point = lower_recovery_point
        self.cuts = 0
        self._epochs_kept = 0
        self._epochs_written = False  # since the last flush
        self._names_changed = True
        self._beside: tuple[str, ...] = ()
        self._since_snapshot = 0
        self._since_flush = 0
        self._last_flush_ms: int | None = None
        self._hints: OrderedDict[int, tuple[Segment, int]] = OrderedDict()

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        return list(self._segments)

    # -- appending ---------------------------------------------------------------------------------

    def _usable(self) -> None:
        if self.closed:
            raise StorageFailure(f"{self.name} is closed")
        if (failed := self.files.failed) is not None:
            raise StorageFailure(f"{self.name} is offline: {failed.text}")

    def _append(self, buffer: bytes | bytearray, placed: list[Placed], append_time: int) -> Appended:
        """With a bound on what may be lost, an append does not return before it is kept: it is acknowledged next."""
        appended = super()._append(buffer, placed, append_time)
        if self._end - self.recovery_point >= self._config.flush_messages:
            self.flush()
        return appended

    def _store(self, buffer: bytes | bytearray, placed: list[Placed]) -> None:
        first, last = placed[0][1], placed[-1][1]
        if last.last_offset - first.base_offset > RELATIVE_MAX and len(placed) > 1:
            for at, header in placed:  # far apart: a cleaner was there; no segment may span them
                self._store_in_one(buffer[at : at + header.size], [(0, header)])
        else:
            self._store_in_one(buffer, placed)

    def _store_in_one(self, buffer: bytes | bytearray, placed: list[Placed]) -> None:
        active = self._segments[-1]
        if active.size and self._must_roll(active, len(buffer), placed):
            far = placed[-1][1].last_offset - self._end > RELATIVE_MAX
            active = self._roll(placed[0][1].base_offset if far else self._end)
        active.append(buffer, placed, self.config.index_interval_bytes)
        self._since_snapshot += len(buffer)
        self._since_flush += len(buffer)

    def _must_roll(self, active: Segment, length: int, placed: list[Placed]) -> bool:
        first = active.first_time()
        newest = max(header.max_timestamp for _, header in placed)
        return (
            active.size + length > self.config.segment_bytes
            or placed[-1][1].last_offset - active.base > RELATIVE_MAX
            or (first >= 0 and newest - first > self.config.segment_ms - self.config.segment_jitter_ms)
            or active.is_full(self.config.segment_index_bytes)
        )

    def roll(self) -> None:
        """The last segment is closed, and a new one begins; nothing happens when it is empty."""
        with self._lock:
            self._usable()
            if self._segments[-1].size:
                self._roll(self._end)

    def _roll(self, base: int) -> Segment:
        active = self._segments[-1]
        active.note_time()
        active.end = base
        self._write_snapshot(base)
        segment = Segment.create(self.handles, self.folder, base)
        self._segments.append(segment)
        self._bases.append(base)
        self._names_changed = True
        return segment

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes:
        pieces: list[bytes] = []
        left = max_bytes
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            if segment.base >= upto:
                break
            start = self._position(segment, offset)
            limit = segment.size if upto >= segment.end else self._position(segment, upto)
            if start < limit:
                piece, whole = self._read_from(segment, start, limit, left, at_least_one and not pieces)
                if piece:
                    pieces.append(piece)
                    left -= len(piece)
                if not whole:
                    break
            offset = max(offset, segment.end)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_from(self, segment: Segment, start: int, limit: int, left: int, at_least_one: bool) -> tuple[bytes, bool]:
        """Whole batches, and whether that is all up to the limit."""
        if limit - start <= left:
            return segment.bytes_at(start, limit - start), True
        stop, offset = segment.boundary(start, start + left)
        if stop == start:
            if not at_least_one:
                return b"", False
            header = next(each for _, each in segment.headers(start, chunk_bytes=4096))
            stop, offset = start + header.size, header.next_offset
        if offset is not None:
            self._hint(offset, segment, stop)
        return segment.bytes_at(start, stop - start), False

    def _index_of(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    def _position(self, segment: Segment, offset: int) -> int:
        """Where the batch begins that holds the offset or follows it; the size of the file where there is none."""
        if offset <= segment.base:
            return 0
        if offset >= segment.end:
            return segment.size
        hint = self._hints.get(offset)
        if hint is not None and hint[0] is segment:
            return hint[1]
        found = segment.locate(offset)
        position = segment.size if found is None else found[0]
        self._hint(offset, segment, position)
        return position

    def _hint(self, offset: int, segment: Segment, position: int) -> None:
        """Who reads goes on where it stopped."""
        self._hints[offset] = segment, position
        if len(self._hints) > _HINTS_MAX:
            self._hints.popitem(last=False)

    def _batches_since(self, timestamp: int) -> Iterator[Candidate]:
        for segment in list(self._segments):
            if segment.end <= self._start or segment.greatest()[0] < timestamp:
                continue
            known = segment.times.before(timestamp)
            start = segment.index.floor(known) if known >= 0 else 0
            yield from self._candidates(segment, start)

    def _candidates(self, segment: Segment, start: int = 0) -> Iterator[Candidate]:
        for position, header in segment.headers(start):
            yield self._at(segment, position, header)

    def _batch_of_greatest(self) -> Candidate | None:
        best: Candidate | None = None
        time = -2
        for segment in self._segments:
            if segment.end <= self._start or not segment.size:
                continue
            if segment.base < self._start:
                for candidate in self._candidates(segment):
                    if candidate[0].last_offset >= self._start and candidate[0].max_timestamp > time:
                        best, time = candidate, candidate[0].max_timestamp
                continue
            greatest, offset = segment.greatest()
            if greatest > time and (found := segment.locate(offset)) is not None:
                position, header = found
                best, time = self._at(segment, position, header), greatest
        return best

    def _at(self, segment: Segment, position: int, header: Header) -> Candidate:
        return header, lambda: segment.bytes_at(position, header.size)

    # -- cutting -----------------------------------------------------------------------------------

    def _cut(self, offset: int) -> int:
        index = self._index_of(offset)
        segment = self._segments[index]
        found = segment.locate(offset) if segment.size else None
        position = segment.size if found is None else found[0]
        self._less_is_durable(segment.end_before(position))
        self._remove_segments(index + 1)
        segment.cut_indexes(position, offset, segment.index, segment.times)
        if position < segment.size:
            self.handles.get(segment.log_path).truncate(position)
            segment.size = position
        self._remove_snapshots(lambda at: at > segment.end)
        return segment.end

    def _drop_all(self, offset: int) -> None:
        self._less_is_durable(0)
        self._remove_segments(0)
        self._remove_snapshots(lambda at: True)
        self._segments.append(Segment.create(self.handles, self.folder, offset))
        self._bases.append(offset)
        self.files.sync_folder(self.folder)
        self.recovery_point = offset
        self._since_snapshot = 0

    def _less_is_durable(self, offset: int) -> None:
        if offset < self.recovery_point:
            self._lower_recovery_point(offset)
        with self._lock:
            self.recovery_point = min(self.recovery_point, offset)
            self.cuts += 1
            self._hints.clear()

    def _remove_segments(self, keep: int) -> None:
        """The last one first, so that whatever a crash leaves is a beginning of the log."""
        for segment in reversed(self._segments[keep:]):
            for suffix in SUFFIXES:
                self.handles.forget(segment.path(suffix))
                self.files.delete(segment.path(suffix))
        if keep < len(self._segments):
            del self._segments[keep:]
            del self._bases[keep:]
            self.files.sync_folder(self.folder)  # they must not come back behind what is written now

    def _started_later(self) -> None:
        pass  # retention removes what cannot be read any more

    # -- retention ---------------------------------------------------------------------------------

    def retire(self, now_ms: int, high_watermark: int) -> int:
        """Segments that are too old, too many, or before the start go, the oldest first; returns how many."""
        with self._lock:
            self._usable()
            gone, size = 0, self.size
            while (segment := self._segments[0]).size and self._may_go(segment, size, now_ms, high_watermark):
                size -= segment.size
                if len(self._segments) == 1:
                    self._roll(self._end)
                self._retire_first(now_ms)
                gone += 1
            if gone:
                self._names_changed = True
                self._remove_snapshots(lambda at: at < self._bases[0])
                if self._bases[0] > self._start:
                    self.move_start(self._bases[0])
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
        newest = segment.greatest()[0]
        if newest < 0:
            newest = self.files.list(self.folder)[file_name(segment.base, LOG)].modified_ms or now_ms
        return now_ms - newest > self.config.retention_ms

    def _retire_first(self, now_ms: int) -> None:
        segment = self._segments.pop(0)
        self._bases.pop(0)
        for suffix in SUFFIXES:
            self.handles.forget(segment.path(suffix))
            self.doom(segment.path(suffix), now_ms)
        self._hints.clear()

    def doom(self, path: str, now_ms: int) -> None:
        """It is deleted when `sweep` finds its time come."""
        with suppress(MissingFile):
            self.files.open(path).close()
            self.files.rename(path, path + DELETED)
            self.doomed.append((path + DELETED, now_ms + self.config.file_delete_delay_ms))

    def sweep(self, now_ms: int) -> None:
        for path, when in [each for each in self.doomed if each[1] <= now_ms]:
            self.files.delete(path)
            self.doomed.remove((path, when))

    def roll_if_old(self, now_ms: int) -> None:
        """A segment that nobody adds to is closed by the clock."""
        with self._lock:
            first = self._segments[-1].first_time() if self._segments[-1].size else -1
            if first >= 0 and now_ms - first > self.config.segment_ms - self.config.segment_jitter_ms:
                self.roll()

    def replace(self, bases: list[int], size: int, end: int) -> None:
        """The cleaner has put one segment in the place of these."""
        at = self._bases.index(bases[0])
        self._segments[at : at + len(bases)] = [Segment(self.handles, self.folder, bases[0], size, end)]
        self._bases[at : at + len(bases)] = [bases[0]]
        self._hints.clear()

    def was_cut_since(self, cuts: int, segments: list[Segment]) -> bool:
        """For who looks at closed segments beside the thread that owns the log: they are not what they were."""
        with self._lock:
            return self.closed or self.cuts != cuts or any(each.base not in self._bases for each in segments)

    # -- durability --------------------------------------------------------------------------------

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
        with self._lock:
            self._usable()
            target, cuts = self._end, self.cuts
            if target <= self.recovery_point and not self._names_changed:
                return self.recovery_point
            paths = [
                segment.path(suffix)
                for segment in self._segments
                if segment.end > self.recovery_point or segment is self._segments[-1]
                for suffix in SUFFIXES
                if suffix == LOG or segment.indexes_changed
            ]
            for segment in self._segments:
                segment.indexes_changed = False
            self._since_flush = 0
            if self._epochs_written:
                paths.append(f"{self.folder}/{EPOCHS}")
                self._epochs_written = False
            beside, self._beside = self._beside, ()
            paths.extend(beside)
            names_changed, self._names_changed = self._names_changed, False
            if self._since_snapshot >= SNAPSHOT_BYTES:
                self._write_snapshot(target)
        try:
            for path in paths:
                sync(self.files, path)
            if names_changed:
                self.files.sync_folder(self.folder)
                self.files.sync_folder("")  # the folder itself may be new
        except MissingFile:
            with self._lock:
                self._names_changed = self._epochs_written = True
                self._beside = (*beside, *self._beside)
                for segment in self._segments:
                    segment.indexes_changed = True
                if cuts == self.cuts:
                    raise
                return self.recovery_point  # cut or cleaned meanwhile: the next flush sees what there is now
        with self._lock:
            if cuts == self.cuts:
                self.recovery_point = max(self.recovery_point, target)
                self._last_flush_ms = None
            return self.recovery_point

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

    # -- beside the records ------------------------------------------------------------------------

    def _keep_epochs(self) -> None:
        """At once, though not durably: what a loss of power takes is read again from the batches."""
        if self.epochs.changed != self._epochs_kept:
            write_atomically(self.files, f"{self.folder}/{EPOCHS}", encode(self.epochs.entries), durably=False)
            self._epochs_kept = self.epochs.changed
            self._epochs_written = self._names_changed = True

    def epochs_are_kept(self) -> None:
        self._epochs_kept = self.epochs.changed
        self._epochs_written = True

    def _snapshots(self) -> list[int]:
        return snapshots_in(self.files.list(self.folder))

    def _write_snapshot(self, offset: int) -> None:
        path = f"{self.folder}/{file_name(offset, SNAPSHOT)}"
        write_atomically(self.files, path, self.producers.encode(), durably=False)
        self._remove_snapshots(lambda at: at < offset and at not in self._bases)
        self._since_snapshot = 0

    def _remove_snapshots(self, which: Callable[[int], bool]) -> None:
        for offset in self._snapshots():
            if which(offset):
                self.files.delete(f"{self.folder}/{file_name(offset, SNAPSHOT)}")

    def _producers_at(self, offset: int) -> Producers:
        """From the newest snapshot that is not behind it, and the batches since."""
        producers, since = Producers(), self._bases[0]
        for at in reversed(self._snapshots()):
            path = f"{self.folder}/{file_name(at, SNAPSHOT)}"
            if at > offset:
                continue
            try:
                producers, since = Producers.decode(read_all(self.files, path)), at
                break
            except ValueError:
                self.files.delete(path)  # an older one, and more batches, tell the same
        replay(producers, self._segments, since, offset)
        return producers


def snapshots_in(names: Iterable[str]) -> list[int]:
    stems = (name.removesuffix(SNAPSHOT) for name in names if name.endswith(SNAPSHOT))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def replay(producers: Producers, segments: list[Segment], since: int, upto: int) -> None:
    for segment in segments:
        if segment.end <= since or segment.base >= upto or not segment.size:
            continue
        position = 0
        if segment.base < since:
            found = segment.locate(since)
            if found is None:
                continue
            position = found[0]
        for at, header in segment.headers(position):
            if header.base_offset >= upto:
                break
            if header.producer_id >= 0 and header.base_offset >= since:
                batch = segment.bytes_at(at, header.size) if header.control else b""
                remember(producers, header, batch, 0)
