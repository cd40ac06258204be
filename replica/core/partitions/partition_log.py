"""The interface through which `replica.core` uses the log of one partition.

`replica.storage.unified_log.UnifiedLog` implements it. Until `flush`, appended records are in the page cache only, so a
power loss may lose them. Offsets are numbers of records, not positions in bytes. The log stores and returns whole
record batches.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from replica.core.errors import ErrorCode
from zab.core.frozen import frozen

NO_OFFSET = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1


class AppendOrigin(IntEnum):
    """The writer of an append. Only a coordinator may append several batches at once, or transaction markers."""

    CLIENT = 0
    COORDINATOR = 1


@frozen
class BatchRefusal:
    """The code and text of a `KafkaError`. The exception itself would keep the unpacked records in memory, through its
    traceback."""

    code: ErrorCode
    text: str


@frozen
class BatchBounds:
    """The limits of one batch: its bytes after decompression, and its records and record headers together."""

    bytes_max: int
    records_max: int


@frozen
class ExaminedBatch:
    """A client's batch whose records were read in advance, so that the append itself is quick.

    data            the batch, compressed as the log stores it
    least_delta     the smallest timestamp delta of its records
    greatest_delta  the largest timestamp delta of its records
    all_keyed       the examination checked that each record has a key, as a compacted log requires
    refusal         the error in its records; of the other fields, only `data` is valid then
    """

    data: bytes
    least_delta: int = 0
    greatest_delta: int = 0
    all_keyed: bool = False
    refusal: BatchRefusal | None = None


@frozen
class LogAppendInfo:
    """The result of an append.

    first, last     offsets of the first and the last record; last = first - 1 if nothing was appended
    append_time     the timestamp that the log assigned (`message.timestamp.type=LogAppendTime`), or NO_TIMESTAMP
    max_timestamp   the greatest timestamp of the records
    offset_of_max   the last offset of the batch with that timestamp
    duplicate       the log already had this batch of an idempotent producer; the offsets are those of the first append
    """

    first: int
    last: int
    append_time: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max: int = NO_OFFSET
    duplicate: bool = False


@frozen
class FetchDataInfo:
    """The result of a read.

    offset      the requested offset
    records     whole batches, back to back, as stored; the first one may begin before `offset`
    """

    offset: int
    records: bytes


@frozen
class EpochEndOffset:
    """The greatest leader epoch in a log that does not exceed the requested one, and its end offset."""

    epoch: int
    end_offset: int


@frozen
class TimestampAndOffset:
    """The result of a search by timestamp: the record's timestamp, offset and leader epoch."""

    timestamp: int
    offset: int
    epoch: int


class AbortedTxn(NamedTuple):
    """An aborted transaction.

    first_offset    offset of its first record
    last_offset     offset of its ABORT marker; readers skip the producer's records in between
    stable_offset   last stable offset after the marker: the first offset of the oldest transaction that was open then,
                    or the offset after the marker
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


@frozen
class ActiveProducer:
    """The state of one producer in a log, as DescribeProducers reports it.

    timestamp           the timestamp of its last batch or transaction marker
    coordinator_epoch   the greatest coordinator epoch of its transaction markers, or -1
    txn_start           first offset of its open transaction, or -1
    """

    producer_id: int
    epoch: int
    last_sequence: int
    timestamp: int
    coordinator_epoch: int
    txn_start: int


class PartitionLog(Protocol):
    @property
    def start_offset(self) -> int:
        """Log start offset: the first offset that can be read."""

    @property
    def end_offset(self) -> int:
        """Log end offset (LEO): the offset of the next record."""

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch assigned to the log, with or without records; NO_EPOCH if there is none."""

    @property
    def half_changed(self) -> bool:
        """True if an exception interrupted an append or a truncation that had begun to change the log."""

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        """Read a batch's records before `append_as_leader`, from any thread.

        Return None if the append will refuse the batch by its header. With `definite=False`, return None also if the
        records are refused, since larger bounds might accept them.
        """

    def refused_records(self, batch: bytes, bounds: BatchBounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        """Return the first `most` records for which a client's batch was refused, each as its index in the batch and
        the reason; empty if the batch was refused as a whole. Slow; callable from any thread."""

    def append_as_leader(
        self, batches: bytes | ExaminedBatch, epoch: int, now_ms: int, *, origin: int = AppendOrigin.CLIENT
    ) -> LogAppendInfo:
        """Validate batches, assign offsets and the leader epoch, and append. Raises errors of `replica.core.errors`."""

    def append_as_follower(self, batches: bytes) -> LogAppendInfo:
        """Append batches with the offsets that the leader assigned. Compaction may have left gaps between them.

        Ignore an incomplete batch at the end. Raises if a batch begins before the end of the log or of the batch before
        it. Exception: the first batch of an empty log may begin before the log start offset, but must reach beyond it.
        """

    def read(self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True) -> FetchDataInfo:
        """Read at most `max_bytes` of whole batches, from the one that holds `offset` to the last one before `upto`.

        With `at_least_one`, the first batch is read even if it is larger. Raises `OffsetOutOfRange`.
        """

    def find_corruption(self, fetched: FetchDataInfo) -> str | None:
        """Verify the checksums of the batches read. Return the error text, or None.

        Ordinary reads skip this: the receiver verifies.
        """

    def last_stable_offset(self, high_watermark: int) -> int:
        """Last stable offset (LSO): the start of the oldest transaction that is open or has an uncommitted marker;
        at most the high watermark."""

    def on_high_watermark_updated(self, offset: int) -> None:
        """Let the last stable offset pass the transactions whose markers are before `offset`: the markers are
        committed."""

    def aborted_in(self, fetched: FetchDataInfo) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions that overlap the batches read."""

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        """Return the producers in the order of their ids."""

    def assign_epoch(self, epoch: int, start: int) -> None:
        """Record that a leader of this epoch starts at this offset."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the end of an epoch, or of the greatest earlier one, for OffsetForLeaderEpoch and divergence.

        Return (NO_EPOCH, NO_OFFSET) for NO_EPOCH, for an epoch later than all of the log, and if the log has none. If
        the log has only later epochs, return the requested epoch and the start of the first later one.
        """

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch of the record at this offset, or NO_EPOCH."""

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Find the first record with this timestamp or a later one. Slow, since it decompresses batches; callable from
        any thread."""

    def greatest_timestamp(self) -> TimestampAndOffset | None:
        """Find the record with the greatest timestamp. Slow like `find_timestamp`; callable from any thread."""

    def truncate_to(self, offset: int) -> None:
        """End the log at this offset, or after the last whole batch before it. If the log starts later, delete all
        records: the next one gets this offset.

        If the log does not reach the offset, only remove epochs that start there or later: an epoch without records
        must not make this log look newer.
        """

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all records. The next record gets this offset."""

    def increment_start_offset(self, offset: int) -> None:
        """Make all records before this offset unreadable. Retention then deletes their segments."""

    def flush(self) -> int:
        """Make the log durable, and return the offset before which it is durable. Slow: never call it in the event
        loop's thread."""
