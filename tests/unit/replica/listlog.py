"""A partition's log as a list, with a disk that keeps only what was flushed when its machine dies."""

from __future__ import annotations

from random import Random
from struct import Struct

from attrs import evolve, frozen

from kraft_controller.core.names import TopicId, TopicPartition
from replica.core.errors import ErrorCode, KafkaError, OffsetOutOfRange
from replica.core.partitions.partition_log import (
    NO_EPOCH,
    NO_OFFSET,
    AbortedTxn,
    ActiveProducer,
    BatchBounds,
    EpochEndOffset,
    ExaminedBatch,
    FetchDataInfo,
    LogAppendInfo,
    TimestampAndOffset,
)

_HEADER = Struct(">qiqi")


@frozen
class Batch:
    base: int
    epoch: int
    timestamp: int
    records: tuple[bytes, ...]

    @property
    def end(self) -> int:
        return self.base + len(self.records)

    def encode(self) -> bytes:
        body = b"\0".join(self.records)
        return _HEADER.pack(self.base, self.epoch, self.timestamp, len(body)) + body


def batch(*records: str, timestamp: int = 0) -> bytes:
    """As a client would send it."""
    return Batch(0, -1, timestamp, tuple(record.encode() for record in records)).encode()


def decode(encoded: bytes) -> list[Batch]:
    found, at = [], 0
    while at < len(encoded):
        base, epoch, timestamp, size = _HEADER.unpack_from(encoded, at)
        at += _HEADER.size
        found.append(Batch(base, epoch, timestamp, tuple(encoded[at : at + size].split(b"\0"))))
        at += size
    return found


class ListLog:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epochs: list[tuple[int, int]] = []
        self.flushed = 0
        self.broken = False
        self.half_changed = False
        self.rotten: set[int] = set()
        """Batches that begin there."""
        self._start = 0
        self._end = 0

    @property
    def start_offset(self) -> int:
        return self._start

    @property
    def end_offset(self) -> int:
        return self._end

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def find_corruption(self, fetched: FetchDataInfo) -> str | None:
        found = [each.base for each in decode(fetched.records) if each.base in self.rotten]
        return f"the batch at {found[0]} has rotted" if found else None

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        return None

    def refused_records(self, batch: bytes, bounds: BatchBounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        return ()

    def append_as_leader(
        self, batches: bytes | ExaminedBatch, epoch: int, now_ms: int, *, origin: int = 0
    ) -> LogAppendInfo:
        self._works()
        first = self._end
        assert isinstance(batches, bytes)  # nothing was examined
        for each in decode(batches):
            self._append(evolve(each, base=self._end, epoch=epoch))
        return LogAppendInfo(first, self._end - 1)

    def append_as_follower(self, batches: bytes) -> LogAppendInfo:
        self._works()
        first = self._end
        for each in decode(batches):
            if each.base < self._end:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{each.base} does not follow on {self._end}")
            self._append(each)
        return LogAppendInfo(first, self._end - 1)

    def _append(self, each: Batch) -> None:
        self.assign_epoch(each.epoch, each.base)
        self.batches.append(each)
        self._end = each.end

    def read(self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True) -> FetchDataInfo:
        self._works()
        if not self._start <= offset <= self._end:
            raise OffsetOutOfRange(f"{offset} is not in {self._start} to {self._end}")
        found = b""
        for each in self.batches:
            if each.end <= offset or each.base >= upto:
                continue
            encoded = each.encode()
            if len(found) + len(encoded) > max_bytes and (found or not at_least_one):
                break
            found += encoded
        return FetchDataInfo(offset, found)

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    def on_high_watermark_updated(self, offset: int) -> None:
        """Nothing here knows transactions."""

    def aborted_in(self, fetched: FetchDataInfo) -> tuple[AbortedTxn, ...]:
        return ()

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        return ()

    def assign_epoch(self, epoch: int, start: int) -> None:
        self._works()
        if self.epochs and epoch <= self.epochs[-1][0]:
            return
        self.epochs = [entry for entry in self.epochs if entry[1] < start]
        self.epochs.append((epoch, start))

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        known = [entry for entry in self.epochs if entry[0] <= epoch]
        if not known:
            return EpochEndOffset(NO_EPOCH, NO_OFFSET)
        later = [start for each, start in self.epochs if each > epoch]
        return EpochEndOffset(known[-1][0], later[0] if later else self._end)

    def epoch_for_offset(self, offset: int) -> int:
        known = [epoch for epoch, start in self.epochs if start <= offset]
        return known[-1] if known else NO_EPOCH

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        return next((self._found(each) for each in self.batches if each.timestamp >= timestamp), None)

    def greatest_timestamp(self) -> TimestampAndOffset | None:
        return self._found(max(self.batches, key=lambda each: each.timestamp)) if self.batches else None

    def _found(self, each: Batch) -> TimestampAndOffset:
        return TimestampAndOffset(each.timestamp, max(each.base, self._start), each.epoch)

    def truncate_to(self, offset: int) -> None:
        kept = [each for each in self.batches if each.base < offset]
        if kept and kept[-1].end > offset:
            kept[-1] = evolve(kept[-1], records=kept[-1].records[: offset - kept[-1].base])
        self.batches = kept
        self._end = min(self._end, offset)
        self.flushed = min(self.flushed, offset)
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches, self.epochs = [], []
        self._start = self._end = self.flushed = offset

    def increment_start_offset(self, offset: int) -> None:
        self._start = max(self._start, offset)
        self.batches = [each for each in self.batches if each.end > self._start]
        before = [entry for entry in self.epochs if entry[1] <= self._start]
        after = [entry for entry in self.epochs if entry[1] > self._start]
        self.epochs = ([(before[-1][0], self._start)] if before else []) + after

    def flush(self) -> int:
        self.flushed = self._end
        return self._end

    def _works(self) -> None:
        if self.broken:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk does not answer")

    # -- for the tests ---------------------------------------------------------------------------------------------

    def lose(self, offset: int) -> None:
        """The machine died, and what is from this offset on had not been written yet. What was flushed stays."""
        offset = max(offset, self.flushed)
        if offset < self._end:
            self.truncate_to(offset)
        self.epochs = [entry for entry in self.epochs if entry[1] < self._end]

    def lose_some(self, chance: Random) -> None:
        self.lose(chance.randint(min(self.flushed, self._end), self._end))

    def records(self) -> list[str]:
        """From the first offset on."""
        flat = {
            each.base + place: record.decode() for each in self.batches for place, record in enumerate(each.records)
        }
        return [flat[offset] for offset in range(self._start, self._end)]

    def written(self) -> dict[int, tuple[int, bytes]]:
        """By offset: under which epoch, and what."""
        return {
            each.base + place: (each.epoch, record)
            for each in self.batches
            for place, record in enumerate(each.records)
            if each.base + place >= self._start
        }


class ListLogs:
    """The disk of one broker."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, ListLog] = {}
        self.topic_ids: dict[TopicPartition, TopicId | None] = {}
        self.watermarks: dict[TopicPartition, int] = {}
        self.offline: set[TopicPartition] = set()
        """Logs out of service until the broker restarts."""

    def open(self, where: TopicPartition, topic_id: TopicId | None, *, begins: bool) -> ListLog:
        if self.topic_ids.setdefault(where, topic_id) != topic_id:
            if not begins:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{where} is of another topic")
            self.delete(where)  # a disk sets it aside, and nobody here would look at it again
            self.topic_ids[where] = topic_id
        log = self.logs.setdefault(where, ListLog())
        if log.broken or where in self.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{where}: the disk does not answer")
        return log

    def high_watermark(self, where: TopicPartition) -> int:
        return self.watermarks.get(where, 0)

    def take_offline(self, where: TopicPartition, why: str) -> None:
        self.offline.add(where)

    def delete(self, where: TopicPartition) -> None:
        self.offline.discard(where)
        for kept in (self.logs, self.topic_ids, self.watermarks):
            kept.pop(where, None)
