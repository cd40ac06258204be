"""The segments of one log in one folder, oldest first (Kafka: LogSegments).

A start checks only the segments after the recovery point. Three rules keep the log consistent after a power loss:

* Before a segment is created, the names of all others are durable, so a power loss can remove only the name of the
  newest segment. Without this rule it could remove the first one, and the log would look like one that starts later.
* Segments are deleted only from either end, one after the other. Before the oldest one is deleted, the deletion of its
  predecessor is durable. So before the recovery point no segment between two others is ever missing. The cleaner
  replaces segments by one that covers their offsets.
* A truncated tail is durable before another segment is created, because a start checks the end of the last segment but
  trusts the ends of all others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias, overload

from replica.storage.files import Handles, MissingFile
from replica.storage.index_checks import ends_before, first_position, greatest
from replica.storage.log_segment import LogSegment
from replica.wire.batch import Header

Candidate: TypeAlias = tuple[Header, Callable[[], bytes]]
"""The header of a batch that may contain the wanted record, and a function that reads the batch."""
DELETED: Final = ".deleted"
_POSITIONS_MAX: Final = 16


def no_jitter() -> float:
    return 0.0


class LogSegments:
    """The segments, and the order in which their files change.

    active             the last segment, the only one that grows
    jitter             the part of `segment.jitter.ms` by which the active segment is rolled earlier: 0 to 1, random
    appended_bytes     the number of bytes that this process has appended
    _draw              returns the `jitter` of the next segment
    _segments, _bases  the segments and their base offsets, ascending; empty only between `delete_all` and `start_at`
    _positions         segment and position of some offsets, so that a reader continues without a search
    _named             the names of segments up to this base offset are durable
    _truncated         True if the active segment was truncated, and the truncation is not durable yet
    _deletions         renamed files of deleted segments, each with the time when its deletion is due
    """

    def __init__(
        self, handles: Handles, folder: str, segments: list[LogSegment], draw: Callable[[], float] = no_jitter
    ) -> None:
        assert segments
        self.handles = handles
        self.files = handles.files
        self.folder = folder
        self.active = segments[-1]
        self._draw = draw
        self.jitter = draw()
        self.appended_bytes = 0
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._positions: OrderedDict[int, tuple[LogSegment, int]] = OrderedDict()
        self._named = -1
        self._truncated = False
        self._deletions: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(list(self._segments))

    @overload
    def __getitem__(self, at: int) -> LogSegment: ...

    @overload
    def __getitem__(self, at: slice) -> list[LogSegment]: ...

    def __getitem__(self, at: int | slice) -> LogSegment | list[LogSegment]:
        return self._segments[at]

    def starts_at(self, offset: int) -> bool:
        """Return whether a segment has this base offset."""
        return offset in self._bases

    def from_offset(self, offset: int) -> list[LogSegment]:
        """Return the segment that may contain the offset, and all later ones."""
        return self._segments[self._floor(offset) :]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def _floor(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes:
        """Read at most `max_bytes` of whole batches, from the one that holds or follows `offset` to the last one before
        `upto`.

        With `at_least_one`, the first batch is read even if it is larger.
        """
        pieces: list[bytes] = []
        left = max_bytes
        for index in range(self._floor(offset), len(self._segments)):
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

    def _read_from(
        self, segment: LogSegment, start: int, limit: int, left: int, at_least_one: bool
    ) -> tuple[bytes, bool]:
        """Read at most `left` bytes of whole batches; with `at_least_one`, read the first batch even if it is larger.

        Return them, and whether `limit` was reached.
        """
        if limit - start <= left:
            return segment.bytes_at(start, limit - start), True
        stop, offset = segment.boundary(start, start + left)
        if stop == start:
            if not at_least_one:
                return b"", False
            header = next(each for _, each in segment.headers(start, chunk_bytes=4096))
            stop, offset = start + header.size, header.next_offset
        if offset is not None:
            self._remember(offset, segment, stop)
        return segment.bytes_at(start, stop - start), False

    def _position(self, segment: LogSegment, offset: int) -> int:
        """Return the start of the batch that contains the offset or follows it; the segment's size if there is none."""
        if offset <= segment.base:
            return 0
        if offset >= segment.end:
            return segment.size
        known = self._positions.get(offset)
        if known is not None and known[0] is segment:
            return known[1]
        found = segment.locate(offset)
        position = segment.size if found is None else found[0]
        self._remember(offset, segment, position)
        return position

    def _remember(self, offset: int, segment: LogSegment, position: int) -> None:
        self._positions[offset] = segment, position
        if len(self._positions) > _POSITIONS_MAX:
            self._positions.popitem(last=False)

    def forget_positions(self) -> None:
        self._positions.clear()

    def batches_since(self, timestamp: int, start_offset: int) -> Iterator[Candidate]:
        """Yield, in order, all batches that may have a record with this timestamp or a later one, and some others.

        Segments that end at or before `start_offset` are left out.
        """
        for segment in list(self._segments):
            if segment.end > start_offset and not ends_before(segment, timestamp):
                yield from _candidates(segment, first_position(segment, timestamp))

    def batch_of_greatest(self, start_offset: int) -> Candidate | None:
        """Return the batch with the greatest timestamp of those that end at or after `start_offset`. Return the first
        one if several have it, and None if there is no batch."""
        best: Candidate | None = None
        time = -2
        for segment in self._segments:
            if segment.end <= start_offset or not segment.size:
                continue
            if segment.base < start_offset:
                for candidate in _candidates(segment):
                    if candidate[0].last_offset >= start_offset and candidate[0].max_timestamp > time:
                        best, time = candidate, candidate[0].max_timestamp
                continue
            latest, offset = greatest(segment)
            if latest > time and (found := segment.locate(offset)) is not None:
                position, header = found
                best, time = _candidate(segment, position, header), latest
        return best

    # -- rolling -----------------------------------------------------------------------------------

    def roll(self, base: int) -> LogSegment:
        """Create a new active segment. Before that, make the last truncation and the names of all other segments
        durable."""
        active = self.active
        if self._truncated:
            for suffix in active.suffixes:
                self.handles.get(active.path(suffix)).sync()
            self._truncated = False
        if self._bases[-1] > self._named:
            self._sync_names()
        return self._create(base)

    def flushed(self, newest_base: int | None) -> None:
        """Handle a completed flush of all segments that were not durable.

        `newest_base` is the base offset of the newest segment whose directory entry the flush made durable, or None if
        the flush did not sync the directory.
        """
        self._truncated = False
        if newest_base is not None:
            self._named = max(self._named, newest_base)

    def _create(self, base: int) -> LogSegment:
        self.active = LogSegment.create(self.handles, self.folder, base)
        self.jitter = self._draw()
        self._segments.append(self.active)
        self._bases.append(base)
        return self.active

    def _sync_names(self) -> None:
        self.files.sync_dir(self.folder)
        self._named = self._bases[-1] if self._bases else -1

    # -- truncation --------------------------------------------------------------------------------

    def truncation_point(self, offset: int) -> tuple[LogSegment, int]:
        """Return the segment that a truncation to `offset` makes the last one, and its size afterwards."""
        segment = self._segments[self._floor(offset)]
        found = segment.locate(offset) if segment.size else None
        return segment, segment.size if found is None else found[0]

    def truncate(self, segment: LogSegment, position: int, offset: int) -> None:
        """Delete the segments after this one, and truncate this one to `position`, which `truncation_point` returned
        for `offset`."""
        self._delete_from(self._segments.index(segment) + 1)
        self.active = segment
        segment.truncate_indexes(position, offset, segment.index, segment.times)
        if position < segment.size:
            self.handles.get(segment.log_path).truncate(position)
            segment.size = position
            self._truncated = True

    def delete_all(self) -> None:
        """Delete all segments. Must be followed by `start_at`."""
        self._delete_from(0)

    def start_at(self, offset: int) -> None:
        """Create the first segment, durably, after `delete_all`."""
        self._create(offset)
        self._sync_names()
        self._truncated = False

    def _delete_from(self, keep: int) -> None:
        """Delete all segments but the first `keep` ones, from the last one back. Delete the first segment of the log
        only when all others are durably gone."""
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
            self._sync_names()  # a deleted segment must not reappear after the batches that are appended next

    # -- retention and cleaning --------------------------------------------------------------------

    def delete_first(self, due_ms: int | None) -> None:
        """Delete the oldest segment, which must not be the active one. Keep its files until `due_ms` for readers that
        have them open; with None delete them at once."""
        assert len(self._segments) > 1
        self._sync_names()
        segment = self._segments.pop(0)
        self._bases.pop(0)
        for suffix in segment.suffixes:
            self.handles.forget(segment.path(suffix))
            if due_ms is None:
                self.files.discard(segment.path(suffix))
            else:
                self._delete_later(segment.path(suffix), due_ms)
        self._positions.clear()

    def _delete_later(self, path: str, due_ms: int) -> None:
        with suppress(MissingFile):
            self.files.open(path).close()
            self.files.rename(path, path + DELETED)
            self._deletions.append((path + DELETED, due_ms))

    def take_due_deletions(self, now_ms: int) -> list[str]:
        """Return the files that are due for deletion, and forget them. The caller deletes them."""
        due = [path for path, when in self._deletions if when <= now_ms]
        self._deletions = [each for each in self._deletions if each[1] > now_ms]
        return due

    def replace(self, replaced: list[LogSegment], size: int, end: int) -> None:
        """Replace these segments by one cleaned segment whose files are already in place."""
        at, bases = self._bases.index(replaced[0].base), [each.base for each in replaced]
        segment = LogSegment(self.handles, self.folder, bases[0], size, end)
        segment.has_aborted = any(each.has_aborted for each in self._segments[at : at + len(bases)])
        self._segments[at : at + len(bases)] = [segment]
        self._bases[at : at + len(bases)] = [bases[0]]
        self._positions.clear()


def _candidates(segment: LogSegment, start: int = 0) -> Iterator[Candidate]:
    for position, header in segment.headers(start):
        yield _candidate(segment, position, header)


def _candidate(segment: LogSegment, position: int, header: Header) -> Candidate:
    return header, lambda: segment.bytes_at(position, header.size)
