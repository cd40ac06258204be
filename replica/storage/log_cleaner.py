"""Compaction of one log (Kafka: LogCleaner).

`replica.core.partitions.log_policy` chooses the log, and `compaction` the records to keep.

A round first reads the dirty part and records the last offset of each key, up to `KEYS_MAX` keys. Then it copies the
closed segments up to there, without the records that `compaction` removes. Each copy is made durable beside the log,
and then renamed to `.swap`. If a crash interrupts the replacement after that rename, the next start finishes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import Final

from attrs import define, frozen

from replica.core.errors import KafkaError
from replica.core.partitions.log_config import RELATIVE_MAX
from replica.core.partitions.log_policy import ClosedSegment, LogToClean, is_too_young, log_to_clean, uncleanable_from
from replica.core.partitions.partition_log import NO_TIMESTAMP, AbortedTxn
from replica.storage.compaction import Compaction, emptied
from replica.storage.files import DamagedLog, Handles, MissingFile
from replica.storage.log_loader import CLEANED, SWAP, finish_swap
from replica.storage.log_segment import LOG, LogSegment, file_name
from replica.storage.transaction_index import ABORTED, encode
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import Header, check

KEYS_MAX: Final = 250_000
"""The number of keys, each about 200 bytes of memory, after which a round reads no further. More keys take more
rounds."""


@frozen
class Cleaned:
    """The result of a round. `upto`: the log is clean before this offset."""

    upto: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def examine_log(log: UnifiedLog, cleaned_upto: int, now_ms: int, high_watermark: int) -> LogToClean:
    """Measure the dirty part of a log."""
    truncations, config = log.flusher.truncations, log.config
    since = max(cleaned_upto, log.start_offset)
    bound = uncleanable_from(log.last_stable_offset(high_watermark), log.recovery_point)

    def measured() -> Iterator[ClosedSegment]:
        for segment in takewhile(lambda each: each.end <= bound, log.segments[:-1]):
            max_timestamp, first = segment.greatest()[0], NO_TIMESTAMP
            if segment.end > since and not is_too_young(config, max_timestamp, now_ms):
                first = segment.first_time()
            yield ClosedSegment(segment.end, segment.size, first, max_timestamp)

    return log_to_clean(config, measured(), since, now_ms, truncations)


def clean(log: UnifiedLog, found: LogToClean, now_ms: int, *, keys_max: int = KEYS_MAX) -> Cleaned:
    """Clean one log once. This may run concurrently with appends: it holds the log's lock only to list the segments and
    aborted transactions, and to replace segments.

    If the log is truncated or segments are deleted meanwhile, some segments may remain as they are. In that case the
    result's `upto` is the first dirty offset. Raises `DamagedLog` or `MissingFile` if the log is damaged.
    """
    handles = Handles(log.segments.files, open_max=4)
    try:
        with log.lock:
            closed = [each for each in log.segments[:-1] if each.end <= found.end_offset]
            segments = [_private_copy(handles, each) for each in closed]
            aborted = log.aborted_between(log.start_offset, found.end_offset)
        compaction = Compaction(now_ms, log.config.delete_retention_ms)
        work = _Round(log, segments, found, aborted, compaction)
        work.note_transactions()
        work.note_keys(keys_max)
        before = sum(each.size for each in segments)
        touched = [each for each in segments if each.base < compaction.upto]
        after = before - sum(each.size for each in touched)
        for group in _groups(touched, log.config.segment_bytes):
            after += work.clean_group(group)
        upto = found.first_dirty_offset if work.given_up else compaction.upto
        return Cleaned(upto, compaction.records_before, compaction.records_after, before, after)
    except (DamagedLog, MissingFile):
        if not log.is_truncated_since(found.truncations, closed):
            raise
        return Cleaned(found.first_dirty_offset, 0, 0, 0, 0)
    finally:
        handles.close()


def _private_copy(handles: Handles, segment: LogSegment) -> LogSegment:
    """Return a second object for the files of the segment, with its own open files and indexes, for the cleaner's
    thread."""
    found = LogSegment(handles, segment.folder, segment.base, segment.size, segment.end)
    found.has_aborted = segment.has_aborted
    return found


def _read_valid(segment: LogSegment, position: int, header: Header) -> bytes:
    """Read a batch and verify its checksum. A damaged batch must not be rebuilt, since it would get a valid
    checksum."""
    batch = segment.bytes_at(position, header.size)
    try:
        check(batch)
    except KafkaError as error:
        raise segment.damaged(position, error.text) from error
    return batch


@define
class _Round:
    """A round of cleaning.

    segments     the closed segments up to the end of the dirty part
    found        the dirty part that `examine_log` measured
    aborted      the aborted transactions in the log's transaction indexes; their markers may be after the dirty part
    compaction   the choice of the records to keep
    given_up     True if the log was truncated or segments were deleted before they could be replaced: the next round
                 starts at the same offset
    """

    log: UnifiedLog
    segments: list[LogSegment]
    found: LogToClean
    aborted: list[AbortedTxn]
    compaction: Compaction
    given_up: bool = False

    def note_transactions(self) -> None:
        compaction = self.compaction
        compaction.note_aborted(self.aborted)
        for segment in self.segments:
            for position, header in segment.headers():
                if compaction.note_batch(header):
                    compaction.note_marker(header, _read_valid(segment, position, header))

    def note_keys(self, keys_max: int) -> None:
        """Read the keys of the dirty part, up to its end or until there are too many keys."""
        compaction, since = self.compaction, self.found.first_dirty_offset
        compaction.upto = self.found.end_offset
        for segment in self.segments:
            if segment.end <= since:
                continue
            for position, header in segment.headers():
                if header.last_offset < since or not compaction.has_keys(header):
                    continue
                compaction.note_keys(_read_valid(segment, position, header))
                if len(compaction.latest) >= keys_max:
                    compaction.upto = header.next_offset
                    return

    def clean_group(self, group: list[LogSegment]) -> int:
        """Replace these segments by one, and return its size.

        The copy, and a transaction index for the markers in it, are durable before the replacement. The index is
        renamed first, because without it readers of the copy would get aborted records. If the log was truncated or the
        segments were deleted meanwhile, delete the copy instead, and return the size of the originals.
        """
        log, files, folder = self.log, self.log.segments.files, self.log.segments.folder
        path = f"{folder}/{file_name(group[0].base, LOG)}"
        size, markers = self._copy(group, path + CLEANED)
        has_aborted = any(each.has_aborted for each in group)
        aborted_path = f"{folder}/{file_name(group[0].base, ABORTED)}"
        if has_aborted:
            self._write_aborted(aborted_path + CLEANED, markers)
        with log.lock:
            log.check_usable()
            if log.is_truncated_since(self.found.truncations, group):
                files.discard(aborted_path + CLEANED)
                files.discard(path + CLEANED)
                self.given_up = True
                return sum(each.size for each in group)
            if has_aborted:
                files.rename(aborted_path + CLEANED, aborted_path + SWAP)
                files.sync_dir(folder)
            files.rename(path + CLEANED, path + SWAP)
            files.sync_dir(folder)
            finish_swap(log.segments.handles, folder, group[0].base, group[-1].end)
            log.segments.replace(group, size, group[-1].end)
        return size

    def _copy(self, group: list[LogSegment], path: str) -> tuple[int, set[int]]:
        """Write the remaining records of these segments durably. Return the size of the copy and the offsets of its
        markers."""
        file = self.log.segments.files.create(path)
        size, markers = 0, set()
        try:
            for segment in group:
                for position, header in segment.headers():
                    kept = self.compaction.retained(header, _read_valid(segment, position, header))
                    if kept is not None and header.control:
                        markers.add(header.last_offset)
                    if kept is None and (header.last_offset == group[-1].end - 1 or self._is_last_of_producer(header)):
                        kept = emptied(header)
                    if kept is not None:
                        file.write(size, kept)
                        size += len(kept)
            file.sync()
        finally:
            file.close()
        return size, markers

    def _write_aborted(self, path: str, markers: Collection[int]) -> None:
        """Write a transaction index with the aborted transactions whose markers are in the copy.

        The entry of a removed marker must go, too: otherwise a consumer would skip the producer's records until a
        marker that never comes.
        """
        file = self.log.segments.files.create(path)
        try:
            file.write(0, encode([each for each in self.aborted if each.last_offset in markers]))
            file.sync()
        finally:
            file.close()

    def _is_last_of_producer(self, header: Header) -> bool:
        """Return whether this batch has the producer's last sequence, which a restart must find."""
        known = self.log.producers.last_entry(header.producer_id) if header.producer_id >= 0 else None
        return known is not None and known.last_offset == header.last_offset


def _groups(segments: list[LogSegment], segment_bytes: int) -> Iterator[list[LogSegment]]:
    """Group neighbouring segments so that each group fits into one segment, by its bytes and its range of offsets."""
    group: list[LogSegment] = []
    size = 0
    for segment in segments:
        far = group and segment.end - group[0].base > RELATIVE_MAX
        if group and (size + segment.size > segment_bytes or far):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group
