"""One segment of a log (Kafka: LogSegment): a file of consecutive batches, an offset index, a time index, and perhaps a
transaction index, all named by the segment's base offset.

Only the last segment of a log grows. Indexes of other segments are read when needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replica.core.partitions.partition_log import NO_OFFSET, NO_TIMESTAMP, AbortedTxn
from replica.storage.files import DamagedLog, Handles, MissingFile
from replica.storage.segment_indexes import OffsetIndex, TimeIndex, decode_last_time
from replica.storage.transaction_index import ABORTED, ENTRY_BYTES, decode, decode_sound, encode
from replica.wire.batch import HEADER_BYTES, MAGIC, PREFIX, Header, parse_header
from zab.storage.disk import read_all

LOG: Final = ".log"
INDEX: Final = ".index"
TIMES: Final = ".timeindex"
SUFFIXES: Final = (LOG, INDEX, TIMES)
"""Suffixes of the files that each segment has."""
ALL_SUFFIXES: Final = (*SUFFIXES, ABORTED)
_LOOK_BYTES: Final = 16 << 10
_WALK_BYTES: Final = 1 << 20


def file_name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


class LogSegment:
    """A segment's files, and its properties.

    base                  the first offset that it may hold; names its files
    size                  bytes of batches in the log file
    end                   for the last segment, the next offset; for a closed one, the base offset of the next segment
    first_timestamp       the greatest timestamp of its first batch; None: not read yet, or there is no batch
    max_timestamp         the greatest timestamp; None: not read yet
    offset_of_max         the last offset of the first batch with `max_timestamp`
    max_is_unchecked      True if `max_timestamp` is from the time index, and `index_checks` has not verified it
    indexes_changed       True if an index changed since the last flush
    indexes_are_rebuilt   True if a rebuild from the batches has been tried, so that another one would not help
    has_aborted           True if the transaction index exists, perhaps without entries
    aborted_changed       True if the transaction index changed since the last flush
    """

    def __init__(self, handles: Handles, folder: str, base: int, size: int, end: int) -> None:
        self.handles = handles
        self.folder = folder
        self.base = base
        self.size = size
        self.end = end
        self.log_path = self.path(LOG)
        self.first_timestamp: int | None = None
        self.max_timestamp: int | None = None
        self.offset_of_max = NO_OFFSET
        self.max_is_unchecked = False
        self.indexes_changed = False
        self.indexes_are_rebuilt = False
        self.has_aborted = False
        self.aborted_changed = False
        self._aborted: list[AbortedTxn] | None = None  # None: not read yet
        self._since_index = 0  # bytes appended since the last entry of the offset index
        self._holding = False  # True while index entries are kept in memory until `write_held_indexes`
        self._index: OffsetIndex | None = None
        self._times: TimeIndex | None = None

    def path(self, suffix: str) -> str:
        return f"{self.folder}/{file_name(self.base, suffix)}"

    @staticmethod
    def create(handles: Handles, folder: str, base: int) -> LogSegment:
        segment = LogSegment(handles, folder, base, 0, base)
        for suffix in SUFFIXES:
            handles.create(segment.path(suffix))
        segment.max_timestamp = NO_TIMESTAMP
        segment._index, segment._times = OffsetIndex(), TimeIndex()
        return segment

    # -- growing -----------------------------------------------------------------------------------

    def append(self, buffer: bytes | bytearray, placed: list[tuple[int, Header]], interval: int) -> None:
        """Append batches. They are written before their index entries, so that no entry points beyond the log file if
        the process ends in between."""
        start = self.size
        self.handles.get(self.log_path).write(start, buffer)
        for at, header in placed:
            self.note(start + at, header, interval)
        self.size = start + len(buffer)

    def note(self, position: int, header: Header, interval: int) -> None:
        """Register a batch at this position. If more than `interval` bytes were appended since the last entry of the
        offset index, add one for this batch, and call `note_time`."""
        time = header.max_timestamp
        if self.first_timestamp is None:
            self.first_timestamp = time
        if self.max_timestamp is None or time > self.max_timestamp:
            self.max_timestamp, self.offset_of_max = time, header.last_offset
        if self._since_index > interval:
            index = self.index
            at = index.size
            self.indexes_changed = True
            entry = index.append(header.last_offset - self.base, position)
            if not self._holding:
                self.handles.get(self.path(INDEX)).write(at, entry)
            self.note_time()
            self._since_index = 0
        self._since_index += header.length + PREFIX.size
        self.end = header.next_offset

    def note_time(self) -> None:
        """Add the greatest timestamp to the time index, if it is not negative and exceeds that of the last entry."""
        time = self.max_timestamp
        if time is None or time < 0:
            return
        times = self.times
        if (last := times.last) is None or time > last[0]:
            at = times.size
            self.indexes_changed = True
            entry = times.append(time, self.offset_of_max - self.base)
            if not self._holding:
                self.handles.get(self.path(TIMES)).write(at, entry)

    def is_full(self, index_bytes: int) -> bool:
        """Return whether an index has no room for two more entries. The next append may add one to each index, and
        closing the segment may add one to the time index."""
        return (
            self.index.size + 2 * OffsetIndex.ENTRY_BYTES > index_bytes
            or self.times.size + 2 * TimeIndex.ENTRY_BYTES > index_bytes
        )

    # -- indexes -----------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load()
        assert self._index is not None
        return self._index

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._load()
        assert self._times is not None
        return self._times

    @property
    def loaded_bytes(self) -> int:
        """The approximate memory of the loaded indexes, in bytes."""
        aborted = len(self._aborted or ()) * ENTRY_BYTES
        return (self._index.size if self._index else 0) + (self._times.size if self._times else 0) + aborted

    def unload(self) -> None:
        self._index = self._times = None
        self.indexes_are_rebuilt = False
        if self._aborted:
            self._aborted = None

    def _load(self) -> None:
        files = self.handles.files
        try:
            index = OffsetIndex(read_all(files, self.path(INDEX)), self.size)
            if not len(index) and self.size > _WALK_BYTES:
                raise ValueError("it is empty")
            self._index, self._times = index, TimeIndex(read_all(files, self.path(TIMES)))
        except (ValueError, MissingFile):
            self.rebuild()

    def rebuild(self, interval: int = 4096) -> None:
        """Rebuild both indexes from the batches. If a batch is damaged, raise `DamagedLog` and keep the old indexes."""
        before = self._index, self._times, self.max_timestamp, self.offset_of_max, self.first_timestamp
        end, since, holding = self.end, self._since_index, self._holding
        self._index, self._times = OffsetIndex(), TimeIndex()
        self.max_timestamp, self.offset_of_max, self.first_timestamp = NO_TIMESTAMP, NO_OFFSET, None
        self._since_index, self._holding = 0, True
        try:
            for position, header in self.headers():
                self.note(position, header, interval)
            self.note_time()
        except BaseException:
            self._index, self._times, self.max_timestamp, self.offset_of_max, self.first_timestamp = before
            self._since_index = since
            raise
        finally:
            self.end, self._holding, self.indexes_are_rebuilt = end, holding, True
        self.max_is_unchecked = False
        self.indexes_changed = True
        if not holding:
            self.write_held_indexes()

    def truncate_indexes(self, position: int, end: int, index: OffsetIndex, times: TimeIndex) -> None:
        """Remove index entries of batches from this position and offset on. Set the segment's end and greatest
        timestamp to those of the remaining batches."""
        sizes = index.size, times.size
        self._drop_entries_from(position, end, index, times)
        if index.size < sizes[0]:
            self.handles.get(self.path(INDEX)).truncate(index.size)
        if times.size < sizes[1]:
            self.handles.get(self.path(TIMES)).truncate(times.size)

    def hold_indexes(self, position: int, end: int, index: OffsetIndex, times: TimeIndex) -> None:
        """Truncate the indexes in memory. `write_held_indexes` writes this and later changes."""
        self._holding = True
        self._drop_entries_from(position, end, index, times)

    def write_held_indexes(self) -> None:
        """Write each held index to its file, from the first byte that differs. Create the file if it is missing.

        After a restart usually no byte differs: the scan of the last batches adds the entries that `hold_indexes` has
        dropped. Truncating the files and appending the entries again would be slow: if the kernel has not written the
        files' pages yet, a truncation takes longer than the rest of the start-up.
        """
        self._holding = False
        for suffix, index in ((INDEX, self.index), (TIMES, self.times)):
            try:
                file = self.handles.get(self.path(suffix))
            except MissingFile:
                file = self.handles.create(self.path(suffix))
            size, wanted = file.size(), index.data
            found = file.read(0, size)
            if found != wanted:
                same = next((at for at, (one, two) in enumerate(zip(found, wanted, strict=False)) if one != two), None)
                begin = min(size, len(wanted)) if same is None else same
                file.write(begin, wanted[begin:])
                if size > len(wanted):
                    file.truncate(len(wanted))

    def _drop_entries_from(self, position: int, end: int, index: OffsetIndex, times: TimeIndex) -> None:
        self._index, self._times = index, times
        self.indexes_changed = True
        index.truncate(position)
        times.truncate(end - self.base)
        self.max_timestamp, self.offset_of_max, start = NO_TIMESTAMP, NO_OFFSET, 0
        self.max_is_unchecked = times.last is not None
        if (last := times.last) is not None:
            self.max_timestamp, self.offset_of_max = last[0], self.base + last[1]
            start = index.floor(last[1])
        self.end = self.base
        if not position:
            self.first_timestamp = None
        start = min(start, index.floor_position(position - 1)) if position else 0
        for _, header in self.headers(start, upto=position):
            self.end = header.next_offset
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max = header.max_timestamp, header.last_offset

    def greatest(self) -> tuple[int, int]:
        """Return the greatest timestamp, and the last offset of the first batch that has it. They are not verified if
        `max_is_unchecked`."""
        if self.max_timestamp is None:
            self._find_greatest()
        assert self.max_timestamp is not None
        return self.max_timestamp, self.offset_of_max

    def _find_greatest(self) -> None:
        """Set the greatest timestamp from the last entry of the time index, which was written when the segment was
        closed. Without a valid entry, scan the batches."""
        try:
            file = self.handles.files.open(self.path(TIMES))
        except MissingFile:
            file = None
        if file is not None:
            try:
                size = file.size()
                if size and size % TimeIndex.ENTRY_BYTES == 0:
                    time, offset = decode_last_time(file.read(size - TimeIndex.ENTRY_BYTES, TimeIndex.ENTRY_BYTES))
                    if time > 0 and offset >= 0:
                        self.max_timestamp, self.offset_of_max = time, self.base + offset
                        self.max_is_unchecked = True
                        return
            finally:
                file.close()
        self.max_timestamp = NO_TIMESTAMP
        for _, header in self.headers():
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max = header.max_timestamp, header.last_offset

    def first_time(self) -> int:
        """Return the greatest timestamp of the first batch, which determines the segment's age; NO_TIMESTAMP if the
        segment is empty."""
        if self.first_timestamp is None:
            self.first_timestamp = next((each.max_timestamp for _, each in self.headers()), None)
        return NO_TIMESTAMP if self.first_timestamp is None else self.first_timestamp

    # -- aborted transactions ------------------------------------------------------------------------

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the files that this segment has."""
        return ALL_SUFFIXES if self.has_aborted else SUFFIXES

    @property
    def may_have_aborted(self) -> bool:
        """True if the segment may have aborted transactions: its transaction index has entries, or was not read yet."""
        return self.has_aborted and (self._aborted is None or bool(self._aborted))

    @property
    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions whose markers are in the segment, in the order of the markers. Raises `ValueError`
        if the file is malformed, `MissingFile` if it is gone."""
        if not self.has_aborted:
            return []
        if self._aborted is None:
            self._aborted = decode(read_all(self.handles.files, self.path(ABORTED)))
        return self._aborted

    def add_aborted(self, entry: AbortedTxn) -> None:
        entries = self.aborted
        if not self.has_aborted:
            self.write_aborted([entry])
            return
        self.handles.get(self.path(ABORTED)).write(len(entries) * ENTRY_BYTES, encode([entry]))
        entries.append(entry)
        self.aborted_changed = True

    def write_aborted(self, entries: list[AbortedTxn]) -> None:
        """Write the transaction index with exactly these entries, possibly none."""
        file = self.handles.create(self.path(ABORTED))
        if entries:
            file.write(0, encode(entries))
        self._aborted = entries
        self.has_aborted = self.aborted_changed = True

    def truncate_aborted(self, end: int) -> None:
        """Remove entries whose marker is at this offset or later, and all entries from the first malformed one on."""
        if not self.has_aborted:
            return
        file = self.handles.get(self.path(ABORTED))
        size = file.size()
        entries = [each for each in decode_sound(file.read(0, size)) if each.last_offset < end]
        if size > len(entries) * ENTRY_BYTES:
            file.truncate(len(entries) * ENTRY_BYTES)
            self.aborted_changed = True
        self._aborted = entries

    # -- reading -----------------------------------------------------------------------------------

    def headers(
        self, position: int = 0, *, upto: int | None = None, chunk_bytes: int = _WALK_BYTES
    ) -> Iterator[tuple[int, Header]]:
        """Yield position and header of each batch from `position`, a batch start, to `upto`, or else to the end. Raises
        `DamagedLog` if a header is invalid, or a batch reaches beyond the end."""
        file = self.handles.files.open(self.log_path) if chunk_bytes == _WALK_BYTES else self.handles.get(self.log_path)
        try:
            chunk, begins = b"", position
            while position < (self.size if upto is None else upto):
                at = position - begins
                if len(chunk) - at < HEADER_BYTES:
                    chunk, begins, at = file.read(position, chunk_bytes), position, 0
                if len(chunk) < HEADER_BYTES:
                    raise self.damaged(position, "the file ends within a batch header")
                header = parse_header(chunk, at)
                size = header.length + PREFIX.size
                if (
                    size < HEADER_BYTES
                    or header.magic != MAGIC
                    or header.last_delta < 0
                    or header.base_offset < self.base
                ):
                    raise self.damaged(
                        position,
                        f"invalid header with size {size}, magic {header.magic}, offset {header.base_offset}, "
                        f"last offset delta {header.last_delta}",
                    )
                if position + size > self.size:
                    raise self.damaged(position, f"the batch has {size} bytes, but the file ends at byte {self.size}")
                yield position, header
                position += size
        finally:
            if chunk_bytes == _WALK_BYTES:
                file.close()

    def locate(self, offset: int) -> tuple[int, Header] | None:
        """Return position and header of the first batch whose last offset is at or after `offset`; None if there is
        none.

        If the index names a position that is not a batch start, or a batch after the offset, rebuild the indexes.
        Raises `DamagedLog` if the batches themselves are damaged.
        """
        start = self.index.floor(offset - self.base)
        try:
            found = self._first_from(start, offset)
            misplaced = start > 0 and found is not None and found[0] == start and found[1].base_offset > offset
        except DamagedLog:
            if not start:
                raise
            misplaced = True
        if misplaced:
            self._rebuild_once()
            found = self._first_from(self.index.floor(offset - self.base), offset)
        return found

    def _rebuild_once(self) -> None:
        """Rebuild the indexes, unless they were rebuilt already: then the log itself is damaged."""
        if not self.indexes_are_rebuilt:
            self.rebuild()

    def _first_from(self, start: int, offset: int) -> tuple[int, Header] | None:
        for position, header in self.headers(start, chunk_bytes=_LOOK_BYTES):
            if header.last_offset >= offset:
                return position, header
        return None

    def boundary(self, start: int, limit: int) -> tuple[int, int | None]:
        """Return the last batch boundary from `start` to `limit`, and the next offset there. The offset is None if no
        batch before the boundary was read: the boundary is `start` or an indexed position."""
        at = max(start, self.index.floor_position(limit))
        try:
            return self._boundary_from(at, limit)
        except DamagedLog:
            if at == start:
                raise
        self._rebuild_once()
        return self._boundary_from(max(start, self.index.floor_position(limit)), limit)

    def _boundary_from(self, at: int, limit: int) -> tuple[int, int | None]:
        offset: int | None = None
        for position, header in self.headers(at, chunk_bytes=_LOOK_BYTES):
            after = position + header.size
            if after > limit:
                break
            at, offset = after, header.next_offset
        return at, offset

    def end_before(self, position: int) -> int:
        """Return the next offset after the last batch that starts before `position`."""
        if not position:
            return self.base
        start = self.index.floor_position(position - 1)
        try:
            return self._end_before(position, start)
        except DamagedLog:
            if not start:
                raise
        self._rebuild_once()
        return self._end_before(position, self.index.floor_position(position - 1))

    def _end_before(self, position: int, start: int) -> int:
        end = self.base
        for _, header in self.headers(start, upto=position, chunk_bytes=_LOOK_BYTES):
            end = header.next_offset
        return end

    def bytes_at(self, position: int, length: int) -> bytes:
        data = self.handles.get(self.log_path).read(position, length)
        if len(data) < length:
            raise self.damaged(position, f"{length} bytes are expected from there on, but only {len(data)} are left")
        return data

    def damaged(self, position: int, text: str) -> DamagedLog:
        return DamagedLog(
            f"{self.handles.files.where}/{self.log_path} is damaged at byte {position}: {text}. If another "
            "replica is in sync, stop the broker, remove this partition's directory and restart: the broker copies the "
            "records. Otherwise keep the directory: `zab-broker dump` prints its readable records"
        )
