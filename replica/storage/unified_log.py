"""The log of one partition (Kafka: UnifiedLog). `replica.storage.log_loader.open_log` makes one.

The log consists of parts, each of which owns one kind of state:

| part | what it owns | when that is durable |
|---|---|---|
| `LogSegments` | the batches and their indexes | after a flush |
| `ProducerStateManager` | the state of producers and transactions as of the log end offset | never: it is replayed |
| `ProducerSnapshots` | that state at some offsets, so that a start replays fewer batches | eventually |
| `LeaderEpochFileCache` | the start offset of each leader epoch | after a flush |
| `LogFlusher` | the recovery point | at the next checkpoint of the directory |

The log itself owns the start and end offsets, validates appended batches, and orders the changes of the parts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from attrs import evolve

from replica.core.errors import KafkaError, OffsetOutOfRange
from replica.core.partitions.log_config import RELATIVE_MAX, LogConfig
from replica.core.partitions.log_policy import Retention, is_expired, is_roll_due, must_roll, retention
from replica.core.partitions.partition_log import (
    NO_OFFSET,
    NO_TIMESTAMP,
    AbortedTxn,
    ActiveProducer,
    AppendOrigin,
    BatchBounds,
    EpochEndOffset,
    ExaminedBatch,
    FetchDataInfo,
    LogAppendInfo,
    TimestampAndOffset,
)
from replica.storage.files import DamagedLog, MissingFile, StorageFailure
from replica.storage.index_checks import newest
from replica.storage.leader_epochs import LeaderEpochFileCache
from replica.storage.log_flusher import LogFlusher, PendingFlush
from replica.storage.log_segment import LOG, LogSegment, file_name
from replica.storage.log_segments import LogSegments
from replica.storage.producer_snapshots import ProducerSnapshots
from replica.storage.producer_state import ProducerStateManager, marker_in
from replica.storage.transaction_index import overlapping
from replica.wire.batch import Header, check, corrupt, parse_header, stamp, stamp_append_time, stamp_max_timestamp, walk
from replica.wire.compression import Codec
from replica.wire.records import read_times, repack
from replica.wire.validation import Checked, Rules, examine, refused_records, validate

Placed: TypeAlias = tuple[int, Header]
"""A batch's position in a buffer, and its header as it will be stored."""
SNAPSHOT_BYTES: Final = 8 << 20
"""The number of appended bytes after which the next flush writes a snapshot, so that a start replays few batches."""


class OffsetCheckpoints(Protocol):
    """The offsets of one log in its directory's checkpoint files. Each call only lowers an offset, and is durable when
    it returns."""

    def lower_end(self, offset: int) -> None:
        """Record that records from this offset on may be missing, because the log is about to be truncated."""

    def lower_start(self, offset: int) -> None:
        """Record that the log starts at this offset, if the recorded one is higher.

        Otherwise a restart would delete records that are appended below the recorded start.
        """


class NoCheckpoints:
    """Checkpoints that do nothing, for a log without a directory."""

    def lower_end(self, offset: int) -> None:
        pass

    def lower_start(self, offset: int) -> None:
        pass


NO_CHECKPOINTS: Final[OffsetCheckpoints] = NoCheckpoints()


class UnifiedLog:
    """Implements `replica.core.partitions.partition_log.PartitionLog`. One thread appends, reads and truncates.

    `flush`, searches by time, the cleaner and the deletion of due files may run in other threads, and take the lock for
    each step. `examine` and `refused_records` may, too; of this log they read only the settings, and they take no lock.

    name             the partition, for messages
    config           the topic's settings, which may change at any time
    segments, producers, snapshots, epochs, flusher   the parts
    damage           the error that a reader found, if the log is damaged; else None
    uncleanable      the error for which the cleaner no longer cleans this log; else None
    closed           True if the log's files are closed, deleted, or used by a later object
    half_changed     True during an append or truncation, and after an exception in the last one
    """

    def __init__(
        self,
        name: str,
        config: LogConfig,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        start: int,
        recovery_point: int,
        checkpoints: OffsetCheckpoints = NO_CHECKPOINTS,
    ) -> None:
        self.name = name
        self.config = config
        self.segments = segments
        self.snapshots = ProducerSnapshots(segments)
        self.producers = ProducerStateManager()
        self.epochs = epochs
        self.end_offset = segments.active.end
        self.flusher = LogFlusher(segments, epochs, min(recovery_point, self.end_offset))
        self.start_offset = start
        self._checkpoints = checkpoints
        self.lock = threading.RLock()
        self._errors = segments.files.errors
        self.damage: DamagedLog | None = None
        self.uncleanable: KafkaError | None = None
        self.closed = False
        self.half_changed = False

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._rules = _rules(config, many=False)
        self._rules_of_many = _rules(config, many=True)
        self._codec = next((each for each in Codec if each.label == config.compression_type), None)

    @property
    def recovery_point(self) -> int:
        return self.flusher.recovery_point

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    @property
    def size(self) -> int:
        return self.segments.size

    def check_usable(self) -> None:
        if self.closed:
            raise StorageFailure(f"{self.name} is closed")
        if self._errors.failed is not None:
            failed = self.segments.handles.failed
            assert failed is not None
            raise StorageFailure(f"{self.name} is offline: {failed.text}")

    # -- appending ---------------------------------------------------------------------------------

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        rules = evolve(self._rules, inflated_bytes_max=bounds.bytes_max, records_max=bounds.records_max)
        found = examine(batches, rules, self._codec)
        if not definite and found is not None and found.refusal is not None:
            return None
        return found

    def refused_records(self, batch: bytes, bounds: BatchBounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        rules = evolve(self._rules, inflated_bytes_max=bounds.bytes_max, records_max=bounds.records_max)
        return refused_records(batch, rules, now_ms, most)

    def append_as_leader(
        self, batches: bytes | ExaminedBatch, epoch: int, now_ms: int, *, origin: int = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        many = origin != AppendOrigin.CLIENT
        rules = self._rules_of_many if many else self._rules
        examined = None
        if isinstance(batches, ExaminedBatch):
            examined, batches = batches, batches.data
        checked = validate(batches, rules, now_ms, examined=examined)
        with self.lock:
            self.check_usable()
            if many:
                self._check_of_coordinator(batches, checked)
            elif (duplicate := self._find_duplicate(checked[0].header)) is not None:
                return duplicate
            buffer, placed = self._assign_offsets(batches, checked, epoch, now_ms)
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, self.end_offset)
                self._write_epochs()
            return self._append(buffer, placed, now_ms if self._config.append_time else NO_TIMESTAMP)

    def append_as_follower(self, batches: bytes) -> LogAppendInfo:
        """Append the leader's batches.

        An empty log accepts a batch that begins before its start offset: after DeleteRecords the leader's log starts
        within that batch, and batches are copied whole. The start offset stays the same.
        """
        with self.lock:
            self.check_usable()
            placed: list[Placed] = []
            expected = self.end_offset
            for at, _ in walk(batches):
                header = check(batches, at)
                empty = self.start_offset == expected == self.end_offset
                if header.base_offset < expected and not (empty and expected < header.next_offset):
                    raise corrupt(
                        f"{self.name}: the next batch begins at offset {header.base_offset}, not at {expected} or later"
                    )
                if header.leader_epoch < 0:
                    raise corrupt(f"{self.name}: the batch at offset {header.base_offset} has no leader epoch")
                if header.control:
                    marker_in(batches, at, header)  # raises if the marker is malformed, before anything is appended
                placed.append((at, header))
                expected = header.next_offset
            if not placed:
                return LogAppendInfo(self.end_offset, self.end_offset - 1)
            start = self.start_offset
            if placed[0][1].base_offset < start:
                self.truncate_fully_and_start_at(placed[0][1].base_offset)
            for _, header in placed:
                if header.leader_epoch != self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
            if self.epochs.changed:
                self._write_epochs()
            end = placed[-1][0] + placed[-1][1].size
            done = self._append(batches if end == len(batches) else batches[:end], placed, NO_TIMESTAMP)
            self.increment_start_offset(start)
            return done

    def _find_duplicate(self, header: Header) -> LogAppendInfo | None:
        """Return the result of the first append if this batch is a retry of an idempotent producer, else None."""
        if header.producer_id < 0:
            return None
        written = self.producers.check(header)
        if written is None:
            return None
        return LogAppendInfo(
            written.first_offset,
            written.last_offset,
            written.timestamp if self._config.append_time else NO_TIMESTAMP,
            written.timestamp,
            written.last_offset,
            duplicate=True,
        )

    def _check_of_coordinator(self, batches: bytes, checked: Sequence[Checked]) -> None:
        for each in checked:
            if each.header.control:
                _, coordinator_epoch = marker_in(batches, each.at, each.header)
                self.producers.check_of_coordinator(each.header, coordinator_epoch)
            elif each.header.producer_id >= 0:
                self.producers.check_of_coordinator(each.header)

    def _assign_offsets(
        self, batches: bytes, checked: Sequence[Checked], epoch: int, now_ms: int
    ) -> tuple[bytearray, list[Placed]]:
        """Return the batches as the log stores them: with the topic's compression, and with offsets, epoch and
        timestamps."""
        buffer = bytearray()
        wanted = self._codec
        offset = self.end_offset
        placed: list[Placed] = []
        for each in checked:
            at, header = len(buffer), each.header
            batch = batches[each.at : each.at + header.size] if len(checked) > 1 else batches
            if wanted is not None and wanted != header.codec and not header.control:
                batch = repack(batch, wanted)
            buffer += batch
            stamp(buffer, at, offset, epoch)
            if self._config.append_time:
                stamp_append_time(buffer, at, now_ms)
            elif each.max_timestamp != header.max_timestamp:
                stamp_max_timestamp(buffer, at, each.max_timestamp)
            header = parse_header(buffer, at)
            placed.append((at, header))
            offset = header.next_offset
        return buffer, placed

    def _append(self, buffer: bytes | bytearray, placed: list[Placed], append_time: int) -> LogAppendInfo:
        """Store the batches, then update the producer state. If `flush.messages` records or more are not durable, flush
        before returning, because the caller acknowledges next."""
        first, last = placed[0][1], placed[-1][1]
        self.half_changed = True
        if last.last_offset - first.base_offset > RELATIVE_MAX and len(placed) > 1:
            for at, header in placed:  # compaction may have left a gap that no segment can span
                self._store(buffer[at : at + header.size], [(0, header)])
        else:
            self._store(buffer, placed)
        max_timestamp, offset_of_max = NO_TIMESTAMP, NO_OFFSET
        for at, header in placed:
            if header.producer_id >= 0:
                aborted = self.producers.replay(header, buffer, at)
                if aborted is not None:
                    self.add_aborted(aborted)
            if header.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max = header.max_timestamp, header.last_offset
        appended = LogAppendInfo(first.base_offset, self.end_offset - 1, append_time, max_timestamp, offset_of_max)
        if self.end_offset - self.flusher.recovery_point >= self._config.flush_messages:
            self.flush()
        self.half_changed = False
        return appended

    def _store(self, buffer: bytes | bytearray, placed: list[Placed]) -> None:
        """Write the batches to the active segment, or to a new one.

        A new segment starts where the previous one ended, even if compaction left a gap there, so that a missing
        segment is detected. It starts at its first batch only if the gap exceeds the range of an index.
        """
        segments, config, length = self.segments, self._config, len(buffer)
        active = segments.active
        last = placed[-1][1]
        if active.size or last.last_offset - active.base > RELATIVE_MAX:
            newest_ms = last.max_timestamp if len(placed) == 1 else max(each.max_timestamp for _, each in placed)
            is_full = active.is_full(config.segment_index_bytes)
            if must_roll(
                config, segments.jitter, active.size, active.base, active.first_time(), length,
                last.last_offset, newest_ms, is_full,
            ):  # fmt: skip
                far = last.last_offset - self.end_offset > RELATIVE_MAX
                active = self._roll(placed[0][1].base_offset if far else self.end_offset)
        active.append(buffer, placed, config.index_interval_bytes)
        segments.appended_bytes += length
        self.end_offset = last.next_offset

    # -- rolling -----------------------------------------------------------------------------------

    def roll(self) -> None:
        """Close the active segment and start a new one, unless the active one is empty."""
        with self.lock:
            self.check_usable()
            if self.segments.active.size:
                self._roll(self.end_offset)

    def roll_if_due(self, now_ms: int) -> None:
        """Close an active segment that is too old (see `is_roll_due`), even without an append."""
        with self.lock:
            active = self.segments.active
            if active.size and is_roll_due(self._config, self.segments.jitter, active.first_time(), now_ms):
                self.roll()

    def _roll(self, base: int) -> LogSegment:
        active = self.segments.active
        active.note_time()
        active.end = base
        self._ensure_transaction_index()
        self.snapshots.write(base, self.producers)
        segment = self.segments.roll(base)
        self.flusher.names_changed = True
        return segment

    # -- reading -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True) -> FetchDataInfo:
        with self.lock:
            self.check_usable()
            if not self.start_offset <= offset <= self.end_offset:
                bounds = f"its log starts at {self.start_offset} and ends at {self.end_offset}"
                raise OffsetOutOfRange(f"{self.name} has no offset {offset}: {bounds}")
            upto = min(upto, self.end_offset)
            if offset >= upto:
                return FetchDataInfo(offset, b"")
            try:
                return FetchDataInfo(offset, self.segments.read(offset, max_bytes, upto, at_least_one))
            except DamagedLog as error:
                self.damage = error
                raise

    def find_corruption(self, fetched: FetchDataInfo) -> str | None:
        try:
            for at, _ in walk(fetched.records):
                check(fetched.records, at)
        except KafkaError as error:
            return error.text
        return None

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        after = -1
        while (candidate := self._first_since(timestamp, after)) is not None:
            header, batch = candidate
            for offset, time in self._readable_times(header, batch):
                if time >= timestamp:
                    return self._found(offset, time)
            after = header.last_offset
        return None

    def _first_since(self, timestamp: int, after: int) -> tuple[Header, bytes] | None:
        """Return header and bytes of the first batch that reaches beyond offset `after` and may have a record with this
        timestamp or a later one; None if there is none. The caller decompresses the batch without the lock."""
        with self.lock:
            self.check_usable()
            for header, load in self.segments.batches_since(timestamp, self.start_offset):
                if header.last_offset >= max(self.start_offset, after + 1) and header.max_timestamp >= timestamp:
                    return header, load()
        return None

    def greatest_timestamp(self) -> TimestampAndOffset | None:
        with self.lock:
            self.check_usable()
            candidate = self.segments.batch_of_greatest(self.start_offset)
            if candidate is None:
                return None
            header, load = candidate
            batch = load()
        found, greatest = -1, -1
        for offset, time in self._readable_times(header, batch):
            if time > greatest:
                found, greatest = offset, time
        return None if greatest < 0 else self._found(found, greatest)

    def _readable_times(self, header: Header, batch: bytes) -> Iterator[tuple[int, int]]:
        """Yield the offset and timestamp of each record of the batch, from the log start on.

        If the batch cannot be decompressed or parsed, yield one last pair: its base offset, or the log start if that is
        greater, and the batch's largest timestamp.
        """
        start = self.start_offset
        try:
            for offset, time in read_times(batch):
                if offset >= start:
                    yield offset, time
        except KafkaError:
            yield max(header.base_offset, start), header.max_timestamp

    def _found(self, offset: int, time: int) -> TimestampAndOffset:
        with self.lock:
            return TimestampAndOffset(time, offset, self.epochs.epoch_for_offset(offset))

    # -- transactions ------------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        producers = self.producers
        if producers.first_open_offset is None and not producers.unreplicated:
            return high_watermark
        return min(max(producers.last_stable_offset(high_watermark), self.start_offset), high_watermark)

    def on_high_watermark_updated(self, offset: int) -> None:
        self.producers.on_high_watermark_updated(offset)

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        return self.producers.active()

    def aborted_in(self, fetched: FetchDataInfo) -> tuple[AbortedTxn, ...]:
        with self.lock:
            if not fetched.records or not self._may_have_aborted(fetched.offset):
                return ()
            upto = fetched.offset
            for _, header in walk(fetched.records):
                upto = header.next_offset
            return tuple(self._aborted(fetched.offset, upto))

    def aborted_between(self, offset: int, upto: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap these offsets."""
        with self.lock:
            return self._aborted(offset, upto) if self._may_have_aborted(offset) else []

    def _may_have_aborted(self, offset: int) -> bool:
        return any(segment.may_have_aborted for segment in self.segments.from_offset(offset))

    def _aborted(self, offset: int, upto: int) -> list[AbortedTxn]:
        """Collect the entries from the segments' transaction indexes: a marker may be in a later segment than the
        records."""
        found: list[AbortedTxn] = []
        for segment in self.segments.from_offset(offset):
            some, complete = overlapping(self.load_aborted(segment), offset, upto)
            found += some
            if complete:
                break
        return found

    def load_aborted(self, segment: LogSegment) -> list[AbortedTxn]:
        """Return a segment's aborted transactions. Rebuild the transaction index if it is missing or malformed."""
        try:
            return segment.aborted
        except (ValueError, MissingFile):
            return self.snapshots.rebuild_aborted(segment)

    def add_aborted(self, aborted: AbortedTxn) -> None:
        """Add a transaction to the index of the segment that contains its marker."""
        segment = self.segments.from_offset(aborted.last_offset)[0]
        self.flusher.names_changed |= not segment.has_aborted
        segment.add_aborted(aborted)

    def _ensure_transaction_index(self) -> None:
        """Create the active segment's transaction index if a transaction has completed in this log.

        It may be empty. Each flush and each roll create it, so that a start can detect a lost one.
        """
        active = self.segments.active
        if self.producers.any_completed and not active.has_aborted:
            active.write_aborted([])
            self.flusher.names_changed = True

    # -- epochs ------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start: int) -> None:
        with self.lock:
            self.check_usable()
            self.epochs.assign(epoch, start)
            self._write_epochs()

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        return self.epochs.epoch_for_offset(offset)

    def _write_epochs(self) -> None:
        if self.epochs.write_if_changed():
            self.flusher.names_changed = True

    # -- truncation --------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        with self.lock:
            self.check_usable()
            if offset < self.start_offset:
                self.truncate_fully_and_start_at(offset)
                return
            if offset < self.end_offset:
                segment, position = self.segments.truncation_point(offset)
                if segment.end_before(position) < self.start_offset:  # one batch contains both offsets
                    self.truncate_fully_and_start_at(self.start_offset)
                    return
                self.half_changed = True
                offset = self.end_offset = self._truncate_segments(segment, position, offset)
                self.producers = self.snapshots.state_at(offset) if len(self.producers) else ProducerStateManager()
            self.half_changed = True
            self.epochs.truncate_from_end(offset)
            self._write_epochs()
            self.half_changed = False

    def _truncate_segments(self, segment: LogSegment, position: int, offset: int) -> int:
        """Truncate segments, transaction index and snapshots. Return the new end offset."""
        self._before_truncation(segment.end_before(position))
        self.segments.truncate(segment, position, offset)
        if segment.has_aborted:
            self.load_aborted(segment)  # rebuilds a malformed index
            segment.truncate_aborted(segment.end)
        self.snapshots.delete(lambda at: at > segment.end)
        return segment.end

    def truncate_fully_and_start_at(self, offset: int) -> None:
        with self.lock:
            self.check_usable()
            self.half_changed = True
            self._before_truncation(0)
            self.segments.delete_all()
            self.snapshots.delete(lambda at: True)
            self.segments.start_at(offset)
            self.flusher.restarted_at(offset)
            self.snapshots.covered_bytes = self.segments.appended_bytes
            earlier = offset < self.start_offset
            self.start_offset = self.end_offset = offset
            if earlier:
                self._checkpoints.lower_start(offset)
            self.producers = ProducerStateManager()
            self.epochs.clear()
            self._write_epochs()
            self.half_changed = False

    def _before_truncation(self, offset: int) -> None:
        """Lower the recovery point and the other checkpoints durably before records are truncated; otherwise recovery
        would report flushed ones as lost."""
        self._checkpoints.lower_end(offset)
        self.flusher.truncated(offset)
        self.segments.forget_positions()

    def is_truncated_since(self, truncations: int, segments: Sequence[LogSegment] = ()) -> bool:
        """Return whether the log was truncated since `truncations` was read, is closed, or lacks one of these segments.

        For callers that use the log's segments without holding the lock throughout.
        """
        with self.lock:
            return (
                self.closed
                or self.flusher.truncations != truncations
                or any(not self.segments.starts_at(each.base) for each in segments)
            )

    def increment_start_offset(self, offset: int) -> None:
        with self.lock:
            self.check_usable()
            if offset > self.end_offset:
                raise OffsetOutOfRange(f"{self.name} cannot start at offset {offset}: it ends at {self.end_offset}")
            if offset > self.start_offset:
                self.start_offset = offset
                self.epochs.truncate_from_start(offset)
                self._write_epochs()

    # -- durability --------------------------------------------------------------------------------

    def flush(self) -> int:
        begun = self.begin_flush()
        if begun is not None and self.write_out(begun):
            self.finish_flush(begun)
        return self.flusher.recovery_point

    def begin_flush(self) -> PendingFlush | None:
        """Begin a flush; return None if everything is durable."""
        with self.lock:
            self.check_usable()
            if self.end_offset <= self.flusher.recovery_point and not self.flusher.names_changed:
                return None
            self._ensure_transaction_index()
            begun = self.flusher.begin(self.end_offset)
            if self.segments.appended_bytes - self.snapshots.covered_bytes >= SNAPSHOT_BYTES:
                self.snapshots.write(self.end_offset, self.producers)
            return begun

    def write_out(self, flush: PendingFlush) -> bool:
        """Execute the slow part of a flush, without the lock.

        Return False if a truncation, retention or the cleaner has removed a file meanwhile. Raises `MissingFile` if one
        is missing for another reason.
        """
        try:
            self.flusher.write_out(flush)
        except MissingFile:
            with self.lock:
                is_outdated = self.flusher.is_outdated(flush)
                self.flusher.cancel(flush)
                if not is_outdated:
                    raise
                return False
        return True

    def finish_flush(self, flush: PendingFlush) -> None:
        with self.lock:
            self.flusher.finish(flush)

    def is_flush_due(self, now_ms: int) -> bool:
        return self.flusher.is_due(self.end_offset, self._config, now_ms)

    def flush_with(self, path: str) -> None:
        """Let the next flush sync a file in the log's folder before it moves the recovery point."""
        with self.lock:
            self.flusher.add_file(path)

    def close(self) -> None:
        """Close the log after making everything durable, so that the next start need not read it."""
        with self.lock:
            if self.closed:
                return
            self.segments.active.note_time()
            if self.end_offset > 0:
                self.snapshots.write(self.end_offset, self.producers)
            self.flusher.names_changed = True
            self.flush()
            self.abandon()

    def abandon(self) -> None:
        """Close the files without a flush."""
        with self.lock:
            self.closed = True
            self.segments.handles.forget_folder(self.segments.folder)

    # -- retention and cleaning --------------------------------------------------------------------

    def delete_old_segments(self, now_ms: int, high_watermark: int, *, at_once: bool = False) -> int:
        """Delete the oldest segments as `replica.core.partitions.log_policy` decides, and return how many.

        Their files stay for `file.delete.delay.ms`, for readers that have them open. With `at_once` they are deleted
        immediately, to free space before any reader exists.
        """
        with self.lock:
            self.check_usable()
            segments, count, size = self.segments, 0, self.segments.size
            while (segment := segments[0]).size and self._must_delete(segment, size, now_ms, high_watermark):
                size -= segment.size
                if len(segments) == 1:
                    self._roll(self.end_offset)
                segments.delete_first(None if at_once else now_ms + self._config.file_delete_delay_ms)
                count += 1
            if count:
                first = segments[0].base
                self.flusher.names_changed = True
                self.snapshots.delete(lambda at: at < first)
                self.increment_start_offset(first)
            return count

    def _must_delete(self, segment: LogSegment, size: int, now_ms: int, high_watermark: int) -> bool:
        config = self._config
        verdict = retention(config, segment.end, segment.size, size, self.start_offset, high_watermark)
        if verdict is not Retention.BY_TIME:
            return verdict is Retention.DELETE
        max_timestamp = newest(segment, now_ms - config.retention_ms)
        if max_timestamp < 0:
            file = self.segments.files.stats(self.segments.folder)[file_name(segment.base, LOG)]
            max_timestamp = file.modified_ms or now_ms
        return is_expired(config, max_timestamp, now_ms)

    def delete_due_files(self, now_ms: int) -> None:
        """Delete the files of deleted segments whose delay has passed. Slow for large files; callable in a thread."""
        with self.lock:
            due = self.segments.take_due_deletions(now_ms)
        for path in due:
            self.segments.files.discard(path)


def _rules(config: LogConfig, *, many: bool) -> Rules:
    return Rules(
        bytes_max=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
        compacted=config.compact,
        append_time=config.append_time,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        many=many,
    )
