"""Snapshots of the producer state: `.snapshot` files beside the segments, each named by the offset of its state.

A start reads the newest snapshot and replays the batches after it, instead of the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from replica.core.partitions.partition_log import AbortedTxn
from replica.storage.log_segment import LogSegment, file_name
from replica.storage.log_segments import LogSegments
from replica.storage.producer_state import ProducerStateManager
from zab.storage.disk import read_all, write_atomically

SNAPSHOT: Final = ".snapshot"


class ProducerSnapshots:
    """The snapshot files of one log.

    segments         the log's segments, whose batches after a snapshot are replayed
    covered_bytes    the segments' `appended_bytes` when the last snapshot was written, or the log was emptied
    """

    def __init__(self, segments: LogSegments) -> None:
        self.segments = segments
        self.covered_bytes = 0

    def offsets(self) -> list[int]:
        return snapshots_in(self.segments.files.stats(self.segments.folder))

    def path(self, offset: int) -> str:
        return f"{self.segments.folder}/{file_name(offset, SNAPSHOT)}"

    def write(self, offset: int, producers: ProducerStateManager) -> None:
        """Write a snapshot, not durably. Remove older ones, except those at segment starts, from which transaction
        indexes are rebuilt."""
        write_atomically(self.segments.files, self.path(offset), producers.encode(), durably=False)
        self.delete(lambda at: at < offset and not self.segments.starts_at(at))
        self.covered_bytes = self.segments.appended_bytes

    def delete(self, which: Callable[[int], bool]) -> None:
        for offset in self.offsets():
            if which(offset):
                self.segments.files.discard(self.path(offset))

    def state_at(self, offset: int) -> ProducerStateManager:
        """Return the producer state at this offset, from the newest valid snapshot up to there and the batches after
        it. Delete malformed snapshots."""
        producers, since = ProducerStateManager(), self.segments[0].base
        for at in reversed(self.offsets()):
            if at > offset:
                continue
            try:
                producers, since = ProducerStateManager.decode(read_all(self.segments.files, self.path(at))), at
                break
            except ValueError:
                self.segments.files.discard(self.path(at))  # an older snapshot and more batches give the same state
        replay(producers, self.segments, since, offset)
        return producers

    def rebuild_aborted(self, segment: LogSegment) -> list[AbortedTxn]:
        """Rebuild a segment's transaction index from its batches and the producer state at its start."""
        entries = replay(self.state_at(segment.base), [segment], segment.base, segment.end)
        segment.write_aborted(entries)
        return entries


def replay(producers: ProducerStateManager, segments: Iterable[LogSegment], since: int, upto: int) -> list[AbortedTxn]:
    """Apply the batches from `since` to `upto`, and return the transactions whose ABORT markers are among them."""
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
                aborted = producers.replay(header, batch, 0)
                if aborted is not None:
                    found.append(aborted)
    return found


def snapshots_in(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshot files among these file names, ascending."""
    stems = (name.removesuffix(SNAPSHOT) for name in names if name.endswith(SNAPSHOT))
    return sorted(int(stem) for stem in stems if stem.isdecimal())
