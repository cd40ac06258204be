"""The batches of a log in a list, in the place of `LogSegments`: no positions, no indexes, no segments to roll."""

from __future__ import annotations

from collections.abc import Iterator

from replica.core.partitions.partition_log import AbortedTxn
from replica.storage.files import Handles
from replica.storage.log_segments import Candidate
from replica.storage.memory_directory import memory_directory
from replica.wire.batch import Header
from zab.storage.memory_disk import MemoryDisk


class ListSegment:
    """The one segment. A position is an index of the list."""

    has_aborted = may_have_aborted = True

    def __init__(self, files: MemoryDisk, folder: str, base: int) -> None:
        self.base = base
        self.batches: list[tuple[Header, bytes]] = []
        self.aborted: list[AbortedTxn] = []
        self.indexes_changed = self.aborted_changed = False
        self._path = f"{folder}/list"
        files.create(self._path)

    @property
    def size(self) -> int:
        return len(self.batches)

    @property
    def end(self) -> int:
        return self.end_before(len(self.batches))

    def path(self, suffix: str) -> str:
        return self._path

    def end_before(self, position: int) -> int:
        return self.batches[position - 1][0].next_offset if position else self.base

    def locate(self, offset: int) -> tuple[int, Header] | None:
        found = ((at, header) for at, (header, _) in enumerate(self.batches) if header.last_offset >= offset)
        return next(found, None)

    def headers(self, position: int = 0) -> Iterator[tuple[int, Header]]:
        return ((at, header) for at, (header, _) in enumerate(self.batches) if at >= position)

    def bytes_at(self, position: int, length: int) -> bytes:
        return self.batches[position][1]

    def add_aborted(self, entry: AbortedTxn) -> None:
        self.aborted.append(entry)

    def truncate_aborted(self, end: int) -> None:
        self.aborted = [each for each in self.aborted if each.last_offset < end]


class Appender:
    """The active segment, which is never full and never old."""

    size = base = 0

    def __init__(self, segments: ListSegments) -> None:
        self._segments = segments
        self.has_aborted = True

    @property
    def end(self) -> int:
        return self._segments.only.end

    def append(self, buffer: bytes | bytearray, placed: list[tuple[int, Header]], interval: int) -> None:
        self._segments.only.batches += [(header, bytes(buffer[at : at + header.size])) for at, header in placed]


class ListSegments:
    def __init__(self, folder: str) -> None:
        self.files = memory_directory()
        self.files.make_folder(folder)
        self.handles = Handles(self.files)
        self.folder = folder
        self.appended_bytes = 0
        self.jitter = 0.0
        self.start_at(0)

    def __iter__(self) -> Iterator[ListSegment]:
        return iter([self.only])

    def __getitem__(self, at: int) -> ListSegment:
        return self.only

    def from_offset(self, offset: int) -> list[ListSegment]:
        return [self.only]

    def read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes:
        found = b""
        for header, batch in self.only.batches:
            if header.last_offset < offset:
                continue
            full = len(found) + len(batch) > max_bytes and (found or not at_least_one)
            if header.base_offset >= upto or full:
                break
            found += batch
        return found

    def batches_since(self, timestamp: int, start_offset: int) -> Iterator[Candidate]:
        return ((header, batch.__bytes__) for header, batch in list(self.only.batches))

    def batch_of_greatest(self, start_offset: int) -> Candidate | None:
        readable = [each for each in self.only.batches if each[0].last_offset >= start_offset]
        best = max(readable, key=lambda each: each[0].max_timestamp, default=None)
        return None if best is None else (best[0], best[1].__bytes__)

    def forget_positions(self) -> None:
        pass

    def flushed(self, newest_base: int | None) -> None:
        pass

    def truncation_point(self, offset: int) -> tuple[ListSegment, int]:
        found = self.only.locate(offset)
        return self.only, self.only.size if found is None else found[0]

    def truncate(self, segment: ListSegment, position: int, offset: int) -> None:
        del segment.batches[position:]

    def delete_all(self) -> None:
        pass

    def start_at(self, offset: int) -> None:
        self.only = ListSegment(self.files, self.folder, offset)
        self.active = Appender(self)
