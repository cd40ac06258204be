"""Compaction: of each key the last record stays, and everything keeps its offset.

One round reads the part that was never cleaned and remembers the last offset of each key, as many as there is memory
for; then it copies the closed segments up to there, without the records that a later one replaces. A copy is made
durable beside the log and takes its place by one rename, which a start repeats if it was interrupted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b
from typing import Final

from attrs import define, field, frozen

from replica.core.errors import KafkaError
from replica.core.partition_log import AbortedTxn
from replica.storage.aborted import ABORTED, encode
from replica.storage.file_log import FileLog
from replica.storage.files import DamagedLog, Handles, MissingFile
from replica.storage.recovery import CLEANED, SWAP, finish_swap
from replica.storage.segment import LOG, Segment, file_name
from replica.wire.batch import DELETE_HORIZON, Header, check
from replica.wire.compression import Codec
from replica.wire.records import ControlType, Record, build, read_control, read_records

KEYS_MAX: Final = 250_000
"""Keys that one round remembers, about 200 bytes each. With more of them it takes more rounds."""
_DIGEST_BYTES: Final = 16


@frozen
class Cleanable:
    """dirty_since  up to there it was cleaned before
    upto         from there on nothing may be cleaned yet
    cuts         how often the log had been cut when somebody looked
    """

    clean_bytes: int
    dirty_bytes: int
    dirty_since: int
    upto: int
    overdue: bool = False
    cuts: int = 0

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


@frozen
class Cleaned:
    """What one round did: records and bytes before and after, and up to where the log is clean now."""

    upto: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def cleanable(log: FileLog, cleaned_upto: int, now_ms: int, bound: int) -> Cleanable:
    """Nothing from `bound`, the high watermark, on; nor what is not durable yet, nor anything behind the beginning of a
    transaction that is open or whose end is not committed."""
    cuts = log.cuts
    since = max(cleaned_upto, log.start_offset)
    bound = min(log.last_stable_offset(bound), log.recovery_point)
    clean = dirty = 0
    upto, overdue = since, False
    for segment in log.segments[:-1]:
        if segment.end > bound:
            break
        newest = segment.greatest()[0]
        if segment.end > since and now_ms - newest < log.config.min_compaction_lag_ms:
            break
        if segment.end <= since:
            clean += segment.size
        else:
            dirty += segment.size
            first = segment.first_time()
            overdue |= first >= 0 and now_ms - first > log.config.max_compaction_lag_ms
            upto = segment.end
    return Cleanable(clean, dirty, since, upto, overdue, cuts)


def worth_it(log: FileLog, found: Cleanable) -> bool:
    return found.dirty_bytes > 0 and (found.overdue or found.ratio > log.config.min_cleanable_dirty_ratio)


def clean(log: FileLog, found: Cleanable, now_ms: int, *, keys_max: int = KEYS_MAX) -> Cleaned:
    """One round. May run beside the thread that appends: only its swaps take the log's lock."""
    handles = Handles(log.files, open_max=4)
    try:
        with log._lock:
            closed = [each for each in log.segments[:-1] if each.end <= found.upto]
            segments = [_for_itself(handles, each) for each in closed]
            work = _Round(log, segments, found, now_ms, log.aborted_between(log.start_offset, found.upto))
        work.remember_transactions()
        work.remember_keys(keys_max)
        before = sum(each.size for each in segments)
        touched = [each for each in segments if each.base < work.upto]
        after = before - sum(each.size for each in touched)
        for group in _groups(touched, log.config.segment_bytes):
            after += work.clean_group(group)
        upto = found.dirty_since if work.given_up else work.upto
        return Cleaned(upto, work.records_before, work.records_after, before, after)
    except (DamagedLog, MissingFile):
        if not log.was_cut_since(found.cuts, closed):
            raise
        return Cleaned(found.dirty_since, 0, 0, 0, 0)
    finally:
        handles.close()


def _for_itself(handles: Handles, segment: Segment) -> Segment:
    found = Segment(handles, segment.folder, segment.base, segment.size, segment.end)
    found.has_aborted = segment.has_aborted
    return found


def _sound(segment: Segment, position: int, header: Header) -> bytes:
    """The batch there. One that has rotted is never packed anew: its new checksum would be right."""
    batch = segment.bytes_at(position, header.size)
    try:
        check(batch)
    except KafkaError as error:
        raise segment.damaged(position, error.text) from error
    return batch


@define
class _Round:
    """listed      the transactions that were aborted, also of ends behind the part that is cleaned
    latest      of each key in the dirty part the last offset
    aborted     of each producer the ranges of offsets that its aborted transactions span
    given_up    some of it was not cleaned, so all of it must be looked at again
    binding     offsets of the ends of transactions of which batches are still there: without them what comes next would
                seem to belong to those
    """

    log: FileLog
    segments: list[Segment]
    found: Cleanable
    now_ms: int
    listed: list[AbortedTxn]
    upto: int = 0
    latest: dict[bytes, int] = field(factory=dict)
    aborted: dict[int, list[tuple[int, int]]] = field(factory=dict)
    binding: set[int] = field(factory=set)
    records_before: int = 0
    records_after: int = 0
    given_up: bool = False

    def remember_keys(self, keys_max: int) -> None:
        """Up to a segment's end, or less far when the memory is used up."""
        self.upto = self.found.upto
        for segment in self.segments:
            if segment.end <= self.found.dirty_since:
                continue
            for position, header in segment.headers():
                if header.last_offset < self.found.dirty_since or header.control or self._was_aborted(header):
                    continue
                for record in read_records(_sound(segment, position, header)):
                    if record.key is not None:
                        self.latest[_digest(record.key)] = record.offset
                if len(self.latest) >= keys_max:
                    self.upto = header.next_offset
                    return

    def remember_transactions(self) -> None:
        opened: dict[int, int] = {}
        for each in self.listed:
            self.aborted.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        known = {each.last_offset for each in self.listed}
        for segment in self.segments:
            for position, header in segment.headers():
                if not header.transactional:
                    continue
                if not header.control:
                    opened.setdefault(header.producer_id, header.base_offset)
                    continue
                start = opened.pop(header.producer_id, None)
                if start is None:
                    continue
                self.binding.add(header.base_offset)
                if header.base_offset in known:
                    continue
                for record in read_records(_sound(segment, position, header)):
                    if read_control(record)[0] is ControlType.ABORT:
                        self.aborted.setdefault(header.producer_id, []).append((start, record.offset))

    def clean_group(self, group: list[Segment]) -> int:
        """Its size afterwards."""
        log = self.log
        path = f"{log.folder}/{file_name(group[0].base, LOG)}"
        file = log.files.create(path + CLEANED)
        size, ends = 0, set()
        try:
            for segment in group:
                for position, header in segment.headers():
                    kept = self.clean_batch(header, _sound(segment, position, header))
                    if kept is not None and header.control:
                        ends.add(header.last_offset)
                    if kept is None and (header.last_offset == group[-1].end - 1 or self._is_last_of_producer(header)):
                        kept = _emptied(header)
                    if kept is not None:
                        file.write(size, kept)
                        size += len(kept)
            file.sync()
        finally:
            file.close()
        lists = any(each.has_aborted for each in group)
        list_path = f"{log.folder}/{file_name(group[0].base, ABORTED)}"
        if lists:
            self._list_aborted(list_path + CLEANED, ends)
        with log._lock:
            log._usable()
            if log.was_cut_since(self.found.cuts, group):
                log.files.discard(list_path + CLEANED)
                log.files.discard(path + CLEANED)  # cut or retired meanwhile: the next round sees what there is then
                self.given_up = True
                return sum(each.size for each in group)
            if lists:
                log.files.rename(list_path + CLEANED, list_path + SWAP)
                log.files.sync_dir(log.folder)  # who finishes the swap without it would show what was aborted
            log.files.rename(path + CLEANED, path + SWAP)
            log.files.sync_dir(log.folder)
            finish_swap(log.handles, log.folder, group[0].base, group[-1].end)
            log.replace([each.base for each in group], size, group[-1].end)
        return size

    def _list_aborted(self, path: str, ends: Collection[int]) -> None:
        """A reader drops what a producer wrote from the beginning of an aborted transaction to its end. Without the end
        he would not stop, so what is said of that transaction goes with it: by then none of its records is left."""
        file = self.log.files.create(path)
        try:
            file.write(0, encode([each for each in self.listed if each.last_offset in ends]))
            file.sync()
        finally:
            file.close()

    def clean_batch(self, header: Header, batch: bytes) -> bytes | None:
        """What is left of it; None: nothing."""
        self.records_before += header.record_count
        if header.base_offset >= self.upto:
            self.records_after += header.record_count
            return batch
        records = list(read_records(batch))
        kept: list[Record] = []
        passing = False
        for record in records:
            stays, for_a_while = self._stays(header, record)
            if stays and for_a_while:
                stays = header.delete_horizon is None or self.now_ms < header.delete_horizon
                passing = True
            if stays:
                kept.append(record)
        self.records_after += len(kept)
        if not kept:
            return None
        if len(kept) == len(records) and (not passing or header.delete_horizon is not None):
            return batch
        return self._packed(header, kept, passing)

    def _stays(self, header: Header, record: Record) -> tuple[bool, bool]:
        """Whether it does, and whether only until every reader had the time to meet it."""
        if header.control:
            return True, record.offset not in self.binding
        if self._was_aborted(header):
            return False, False
        newest = record.key is not None and self.latest.get(_digest(record.key), -1) <= record.offset
        return newest, record.value is None

    def _was_aborted(self, header: Header) -> bool:
        ranges = self.aborted.get(header.producer_id, ()) if header.transactional else ()
        return any(start <= header.base_offset <= end for start, end in ranges)

    def _packed(self, header: Header, kept: list[Record], passing: bool) -> bytes:
        flags, first = header.attributes & ~7, header.delete_horizon
        if passing and first is None:
            flags, first = flags | DELETE_HORIZON, self.now_ms + self.log.config.delete_retention_ms
        last = header.max_timestamp if header.log_append_time else None
        return _as(header, kept, header.codec, flags, first, last)

    def _is_last_of_producer(self, header: Header) -> bool:
        """Its sequence must be found again by whoever reads this log."""
        known = self.log.producers.get(header.producer_id) if header.producer_id >= 0 else None
        return known is not None and known.last_offset == header.last_offset


def _emptied(header: Header) -> bytes:
    """A batch that says only where it stood, and what its producer had sent."""
    flags = header.attributes & ~(7 | DELETE_HORIZON)
    return _as(header, [], Codec.NONE, flags, header.base_timestamp, header.max_timestamp)


def _as(
    header: Header,
    records: list[Record],
    codec: Codec,
    flags: int,
    base_timestamp: int | None,
    max_timestamp: int | None,
) -> bytes:
    """Offsets, epoch and producer stay what they were, whatever is left in it."""
    return build(
        records,
        codec=codec,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        flags=flags,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
    )


def _digest(key: bytes) -> bytes:
    """Long keys take no more memory than short ones; that two keys share one is not to be expected in this universe."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _groups(segments: list[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Small neighbours become one segment."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        far = group and segment.end - group[0].base > (1 << 31) - 1
        if group and (size + segment.size > segment_bytes or far):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group
