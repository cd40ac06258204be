"""The segments of a partition's log, one behind the other in a folder: where something is, and what is there.

Whoever reads goes on where it stopped, so places are remembered for a while.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from replica.core.partition_log import AbortedTxn
from replica.storage.aborted import among
from replica.storage.config import LogConfig
from replica.storage.files import Handles, MissingFile, StorageFailure
from replica.storage.hints import ends_before, first_place, greatest
from replica.storage.producers import Producers
from replica.storage.segment import Segment
from replica.storage.unified_log import Candidate, UnifiedLog, remember
from replica.wire.batch import Header

_HINTS_MAX: Final = 16


class SegmentsLog(UnifiedLog):
    def __init__(
        self, name: str, config: LogConfig, handles: Handles, folder: str, segments: list[Segment], start: int
    ) -> None:
        super().__init__(name, config, start)
        self.handles = handles
        self.files = handles.files
        self.folder = folder
        self.closed = False
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._end = segments[-1].end
        self._hints: OrderedDict[int, tuple[Segment, int]] = OrderedDict()

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        return list(self._segments)

    def _usable(self) -> None:
        if self.closed:
            raise StorageFailure(f"{self.name} is closed")
        if (failed := self.handles.failed) is not None:
            raise StorageFailure(f"{self.name} is offline: {failed.text}")

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
            if segment.end > self._start and not ends_before(segment, timestamp):
                yield from self._candidates(segment, first_place(segment, timestamp))

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
            latest, offset = greatest(segment)
            if latest > time and (found := segment.locate(offset)) is not None:
                position, header = found
                best, time = self._at(segment, position, header), latest
        return best

    def _at(self, segment: Segment, position: int, header: Header) -> Candidate:
        return header, lambda: segment.bytes_at(position, header.size)

    # -- aborted transactions ----------------------------------------------------------------------

    def _any_aborted(self, offset: int) -> bool:
        return any(segment.any_aborted for segment in self._segments[self._index_of(offset) :])

    def _aborted(self, offset: int, upto: int) -> list[AbortedTxn]:
        """Each is told where it ended, which may be segments behind its records."""
        found: list[AbortedTxn] = []
        for segment in self._segments[self._index_of(offset) :]:
            some, complete = among(self._aborted_in(segment), offset, upto)
            found += some
            if complete:
                break
        return found

    def aborted_between(self, offset: int, upto: int) -> list[AbortedTxn]:
        with self._lock:
            return self._aborted(offset, upto) if self._any_aborted(offset) else []

    def _aborted_in(self, segment: Segment) -> list[AbortedTxn]:
        try:
            return segment.aborted
        except (ValueError, MissingFile):
            return self.find_aborted(segment)

    def find_aborted(self, segment: Segment) -> list[AbortedTxn]:
        """From the batches: those of it, and those before it that say what was open where it begins."""
        entries = replay(self._producers_at(segment.base), [segment], segment.base, segment.end)
        segment.keep_aborted(entries)
        return entries


def replay(producers: Producers, segments: list[Segment], since: int, upto: int) -> list[AbortedTxn]:
    """They hear of all that was written in between. Returns what was aborted."""
    found = []
    for segment in segments:
        if segment.end <= since or segment.base >= upto or not segment.size:
            continue
        position = 0
        if segment.base < since:
            first = segment.locate(since)
            if first is None:
                continue
            position = first[0]
        for at, header in segment.headers(position):
            if header.base_offset >= upto:
                break
            if header.producer_id >= 0 and header.base_offset >= since:
                batch = segment.bytes_at(at, header.size) if header.control else b""
                aborted = remember(producers, header, batch, 0)
                if aborted is not None:
                    found.append(aborted)
    return found
