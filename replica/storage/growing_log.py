"""How a partition's log grows, and how it is cut: segments that are rolled and indexed; and what stands beside them,
leader epochs and snapshots of producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from replica.core.partition_log import AbortedTxn
from replica.storage.checkpoints import EPOCHS, encode
from replica.storage.config import RELATIVE_MAX, LogConfig
from replica.storage.files import Handles
from replica.storage.producers import Producers
from replica.storage.segment import Segment, file_name
from replica.storage.segments_log import SegmentsLog, replay
from replica.storage.unified_log import Placed
from zab.storage.disk import read_all, write_atomically

SNAPSHOT: Final = ".snapshot"


class Marks(Protocol):
    """What is remembered of a log outside of it. Both are durable when they return; neither ever raises a mark."""

    def ends_at(self, offset: int) -> None:
        """It is about to be cut to there, so what was behind may be missing from now on."""

    def begins_at(self, offset: int) -> None:
        """There, and nothing that was said of a later start holds any more: what is appended next would be taken for
        records that were deleted, and go at the next start."""


class NoMarks:
    """Of a log of which nothing is remembered."""

    def ends_at(self, offset: int) -> None:
        pass

    def begins_at(self, offset: int) -> None:
        pass


NO_MARKS: Final[Marks] = NoMarks()


class GrowingLog(SegmentsLog):
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
        super().__init__(name, config, handles, folder, segments, start)
        self.recovery_point = self._end
        self._marks = marks
        self.cuts = 0
        self._cut_back = False
        """The last segment was, and nothing says yet that a loss of power cannot bring back what was cut off."""
        self._epochs_kept = 0
        self._epochs_written = False  # since the last flush
        self._names_changed = True
        self._named = -1  # up to this base the names of the segments are known to be durable
        self._since_snapshot = 0
        self._since_flush = 0

    # -- appending ---------------------------------------------------------------------------------

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
        self._say_what_was_aborted()
        self._write_snapshot(base)
        self._cut_durably()
        self._name_durably()
        segment = Segment.create(self.handles, self.folder, base)
        self._segments.append(segment)
        self._bases.append(base)
        self._names_changed = True
        return segment

    def _cut_durably(self) -> None:
        """Before another segment is made. What is found behind the last segment is checked when it is found again, and
        what is found behind any other one may be believed.
        """
        if self._cut_back:
            for suffix in self._segments[-1].suffixes:
                self.handles.get(self._segments[-1].path(suffix)).sync()
            self._cut_back = False

    def _name_durably(self) -> None:
        """Before another segment is made. A loss of power may take the newest name, and no other one: a log that lacks
        its beginning would pass for one that was begun later.
        """
        newest = self._bases[-1]
        if newest > self._named:
            self.files.sync_dir(self.folder)
            self._named = newest

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
            self._cut_back = True
        if segment.has_aborted:
            self._aborted_in(segment)  # as far as they are kept they have to make sense
            segment.cut_aborted(segment.end)
        self._remove_snapshots(lambda at: at > segment.end)
        return segment.end

    def _drop_all(self, offset: int) -> None:
        self._less_is_durable(0)
        self._remove_segments(0)
        self._remove_snapshots(lambda at: True)
        self._segments.append(Segment.create(self.handles, self.folder, offset))
        self._bases.append(offset)
        self.files.sync_dir(self.folder)
        self._named = offset
        self._cut_back = False
        self.recovery_point = offset
        self._since_snapshot = 0

    def _less_is_durable(self, offset: int) -> None:
        self._marks.ends_at(offset)
        with self._lock:
            self.recovery_point = min(self.recovery_point, offset)
            self.cuts += 1
            self._hints.clear()

    def _remove_segments(self, keep: int) -> None:
        """The last one first, and the first one alone, so that whatever a crash leaves is a beginning of the log. A gap
        in it ends it.
        """
        for at in range(len(self._segments) - 1, keep - 1, -1):
            if not at:
                self.files.sync_dir(self.folder)
            segment = self._segments[at]
            for suffix in segment.suffixes:
                self.handles.forget(segment.path(suffix))
                self.files.discard(segment.path(suffix))
        if keep < len(self._segments):
            del self._segments[keep:]
            del self._bases[keep:]
            self.files.sync_dir(self.folder)  # they must not come back behind what is written now
            self._named = self._bases[-1] if self._bases else -1

    def _started_later(self) -> None:
        pass  # retention removes what cannot be read any more

    def _started_earlier(self) -> None:
        self._marks.begins_at(self._start)

    # -- beside the records ------------------------------------------------------------------------

    def _keep_epochs(self) -> None:
        """At once, though not durably: what a loss of power takes is read again from the batches."""
        if self.epochs.changed != self._epochs_kept:
            write_atomically(self.files, f"{self.folder}/{EPOCHS}", encode(self.epochs.entries), durably=False)
            self._epochs_kept = self.epochs.changed
            self._epochs_written = self._names_changed = True

    def _keep_aborted(self, aborted: AbortedTxn) -> None:
        segment = self._segments[self._index_of(aborted.last_offset)]
        self._names_changed |= not segment.has_aborted
        segment.note_aborted(aborted)

    def _say_what_was_aborted(self) -> None:
        """And be it nothing, of a log in which transactions end, before any of a segment is durable: then it is known
        at the next start whether this was lost."""
        active = self._segments[-1]
        if self.producers.any_ended and not active.has_aborted:
            active.keep_aborted([])
            self._names_changed = True

    def changed_beside(self) -> None:
        """A flush has something to do, also when it has nothing to do for the records."""
        self._names_changed = True

    def epochs_are_kept(self) -> None:
        self._epochs_kept = self.epochs.changed
        self._epochs_written = True

    def _snapshots(self) -> list[int]:
        return snapshots_in(self.files.stats(self.folder))

    def _write_snapshot(self, offset: int) -> None:
        path = f"{self.folder}/{file_name(offset, SNAPSHOT)}"
        write_atomically(self.files, path, self.producers.encode(), durably=False)
        self._remove_snapshots(lambda at: at < offset and at not in self._bases)
        self._since_snapshot = 0

    def _remove_snapshots(self, which: Callable[[int], bool]) -> None:
        for offset in self._snapshots():
            if which(offset):
                self.files.discard(f"{self.folder}/{file_name(offset, SNAPSHOT)}")

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
                self.files.discard(path)  # an older one, and more batches, tell the same
        replay(producers, self._segments, since, offset)
        return producers


def snapshots_in(names: Iterable[str]) -> list[int]:
    stems = (name.removesuffix(SNAPSHOT) for name in names if name.endswith(SNAPSHOT))
    return sorted(int(stem) for stem in stems if stem.isdigit())
