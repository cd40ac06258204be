"""A partition's log, but for the bytes: what may be appended, under which offsets, and what is remembered beside it.

The log in files and the one in memory share all of this, so that what a simulation decides on is what a broker does.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from attrs import evolve

from replica.core.errors import KafkaError, OffsetOutOfRange
from replica.core.partition_log import (
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
from replica.storage.config import LogConfig
from replica.storage.epochs import EpochCache
from replica.storage.files import DamagedLog
from replica.storage.producers import Producers
from replica.wire.batch import Header, check, corrupt, parse_header, stamp, stamp_append_time, stamp_max_timestamp, walk
from replica.wire.records import ControlType, read_control, read_records, read_times, repack
from replica.wire.validation import Checked, examine, refused_records, validate

Placed: TypeAlias = tuple[int, Header]
"""Where a batch lies in a buffer, and its header as it will be stored."""
Candidate: TypeAlias = tuple[Header, Callable[[], bytes]]
"""A batch that may hold what is searched, and how to get it."""


class UnifiedLog(ABC):
    """See `replica.core.partition_log.PartitionLog`. One thread calls it. `flush`, `examine`, searches by time and the
    cleaner may run in other threads."""

    def __init__(self, name: str, config: LogConfig, start: int = 0) -> None:
        self.name = name
        self.check_records = True
        self.config = config
        self.epochs = EpochCache()
        self.producers = Producers()
        self._start = start
        self._end = start
        self._lock = threading.RLock()
        self.damage: DamagedLog | None = None
        """What was found in it while it was in use."""

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._rules = config.rules()
        self._rules_of_many = config.rules(many=True)
        self._codec = config.codec

    @property
    def start_offset(self) -> int:
        return self._start

    @property
    def end_offset(self) -> int:
        return self._end

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    # -- appending ---------------------------------------------------------------------------------

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        rules = self._rules
        if not (self.check_records or rules.compacted):
            return None
        rules = evolve(rules, inflated_bytes_max=bounds.bytes_max, records_max=bounds.records_max)
        found = examine(batches, rules, self._codec)
        if not definite and found is not None and found.refusal is not None:
            return None  # perhaps only for the bounds
        return found

    def refused_records(self, batch: bytes, bounds: BatchBounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        """Name the records for which `append_as_leader` refused a client's batch. Slow; also from a thread."""
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
        checked = validate(batches, rules, now_ms, check_records=self.check_records, examined=examined)
        with self._lock:
            self._usable()
            if many:
                self._check_of_coordinator(batches, checked)
            elif (written := self._written_before(checked[0].header)) is not None:
                return written
            buffer, placed = self._number(batches, checked, epoch, now_ms)
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, self._end)
                self._keep_epochs()
            return self._append(buffer, placed, now_ms if self.config.append_time else NO_TIMESTAMP)

    def append_as_follower(self, batches: bytes) -> LogAppendInfo:
        with self._lock:
            self._usable()
            placed: list[Placed] = []
            expected = self._end
            for at, _ in walk(batches):
                header = check(batches, at)
                if header.base_offset < expected and not self._start == expected == self._end < header.next_offset:
                    raise corrupt(
                        f"{self.name} ends at offset {expected}, and a batch from {header.base_offset} on should follow"
                    )
                if header.leader_epoch < 0:
                    raise corrupt(f"{self.name}: the batch at offset {header.base_offset} has no leader epoch")
                placed.append((at, header))
                expected = header.next_offset
            if not placed:
                return LogAppendInfo(self._end, self._end - 1)
            start = self._start
            if placed[0][1].base_offset < start:
                # The leader's log, and so this empty one, begins within a batch, and batches come whole.
                self.truncate_fully_and_start_at(placed[0][1].base_offset)
            for _, header in placed:
                if header.leader_epoch != self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
            self._keep_epochs()
            end = placed[-1][0] + placed[-1][1].size
            done = self._append(batches if end == len(batches) else batches[:end], placed, NO_TIMESTAMP)
            self.increment_start_offset(start)
            return done

    def _written_before(self, header: Header) -> LogAppendInfo | None:
        if header.producer_id < 0:
            return None
        written = self.producers.check(header)
        if written is None:
            return None
        return LogAppendInfo(
            written.first_offset,
            written.last_offset,
            written.timestamp if self.config.append_time else NO_TIMESTAMP,
            written.timestamp,
            written.last_offset,
            duplicate=True,
        )

    def _check_of_coordinator(self, batches: bytes, checked: Sequence[Checked]) -> None:
        for each in checked:
            if each.header.control:
                _, coordinator_epoch = _end_in(batches, each.at, each.header)
                self.producers.check_of_coordinator(each.header, coordinator_epoch)
            elif each.header.producer_id >= 0:
                self.producers.check_of_coordinator(each.header)

    def _number(
        self, batches: bytes, checked: Sequence[Checked], epoch: int, now_ms: int
    ) -> tuple[bytearray, list[Placed]]:
        buffer = bytearray()
        wanted = self._codec
        offset = self._end
        placed: list[Placed] = []
        for each in checked:
            at, header = len(buffer), each.header
            batch = batches[each.at : each.at + header.size] if len(checked) > 1 else batches
            if wanted is not None and wanted != header.codec and not header.control:
                batch = repack(batch, wanted)
            buffer += batch
            stamp(buffer, at, offset, epoch)
            if self.config.append_time:
                stamp_append_time(buffer, at, now_ms)
            elif each.max_timestamp != header.max_timestamp:
                stamp_max_timestamp(buffer, at, each.max_timestamp)
            header = parse_header(buffer, at)
            placed.append((at, header))
            offset = header.next_offset
        return buffer, placed

    def _append(self, buffer: bytes | bytearray, placed: list[Placed], append_time: int) -> LogAppendInfo:
        self._store(buffer, placed)
        self._end = placed[-1][1].next_offset
        max_timestamp, offset_of_max = NO_TIMESTAMP, NO_OFFSET
        for at, header in placed:
            if header.producer_id >= 0:
                aborted = remember(self.producers, header, buffer, at)
                if aborted is not None:
                    self._keep_aborted(aborted)
            if header.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max = header.max_timestamp, header.last_offset
        return LogAppendInfo(placed[0][1].base_offset, self._end - 1, append_time, max_timestamp, offset_of_max)

    # -- reading -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upto: int, *, at_least_one: bool = True) -> FetchDataInfo:
        with self._lock:
            self._usable()
            if not self._start <= offset <= self._end:
                raise OffsetOutOfRange(f"{self.name} has offsets from {self._start} to {self._end}, and none {offset}")
            upto = min(upto, self._end)
            if offset >= upto:
                return FetchDataInfo(offset, b"")
            return FetchDataInfo(offset, self._read(offset, max_bytes, upto, at_least_one))

    def aborted_in(self, fetched: FetchDataInfo) -> tuple[AbortedTxn, ...]:
        with self._lock:
            if not fetched.records or not self._any_aborted(fetched.offset):
                return ()
            upto = fetched.offset
            for _, header in walk(fetched.records):
                upto = header.next_offset
            return tuple(self._aborted(fetched.offset, upto))

    def find_corruption(self, fetched: FetchDataInfo) -> str | None:
        try:
            for at, _ in walk(fetched.records):
                check(fetched.records, at)
        except KafkaError as error:
            return error.text
        return None

    def mark_damaged(self, why: str) -> None:
        self.damage = DamagedLog(
            f"{self.name} is damaged: {why}. Remove its directory while the broker is down, and it is copied from the "
            "others"
        )

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        behind = -1
        while (candidate := self._first_since(timestamp, behind)) is not None:
            header, batch = candidate
            for offset, time in self._readable(header, batch):
                if time >= timestamp:
                    return self._found(offset, time)
            behind = header.last_offset
        return None

    def _first_since(self, timestamp: int, behind: int) -> tuple[Header, bytes] | None:
        """The first batch that may hold a record of that time or later. It is unpacked when others may go on."""
        with self._lock:
            self._usable()
            for header, load in self._batches_since(timestamp):
                if header.last_offset >= max(self._start, behind + 1) and header.max_timestamp >= timestamp:
                    return header, load()
        return None

    def greatest_timestamp(self) -> TimestampAndOffset | None:
        with self._lock:
            self._usable()
            candidate = self._batch_of_greatest()
            if candidate is None:
                return None
            header, load = candidate
            batch = load()
        found, greatest = -1, -1
        for offset, time in self._readable(header, batch):
            if time > greatest:
                found, greatest = offset, time
        return None if greatest < 0 else self._found(found, greatest)

    def _readable(self, header: Header, batch: bytes) -> Iterator[tuple[int, int]]:
        """Offsets and times of its records, from the start of the log on. What cannot be unpacked, or only in part,
        ends with one that stands for its whole batch."""
        start = self._start
        try:
            for offset, time in read_times(batch):
                if offset >= start:
                    yield offset, time
        except KafkaError:
            yield max(header.base_offset, start), header.max_timestamp

    def _found(self, offset: int, time: int) -> TimestampAndOffset:
        with self._lock:
            return TimestampAndOffset(time, offset, self.epochs.epoch_for_offset(offset))

    # -- transactions ------------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        producers = self.producers
        if producers.first_open is None and not producers.ended:
            return high_watermark
        return min(max(producers.stable(high_watermark), self._start), high_watermark)

    def on_high_watermark_updated(self, offset: int) -> None:
        self.producers.on_high_watermark_updated(offset)

    def active_producers(self) -> tuple[ActiveProducer, ...]:
        return self.producers.active()

    # -- epochs ------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start: int) -> None:
        with self._lock:
            self._usable()
            self.epochs.assign(epoch, start)
            self._keep_epochs()

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        return self.epochs.end_of(epoch, self._end)

    def epoch_for_offset(self, offset: int) -> int:
        return self.epochs.epoch_for_offset(offset)

    # -- cutting -----------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        with self._lock:
            self._usable()
            if offset < self._start:
                self.truncate_fully_and_start_at(offset)
                return
            if offset < self._end:
                self._end = self._cut(offset)
                offset = self._end
                if offset < self._start:  # within a batch of which only the end was left
                    self._start = offset
                    self._started_earlier()
                self.producers = self._producers_at(self._end) if len(self.producers) else Producers()
            self.epochs.truncate_from_end(offset)
            self._keep_epochs()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        with self._lock:
            self._usable()
            self._drop_all(offset)
            earlier = offset < self._start
            self._start = self._end = offset
            if earlier:
                self._started_earlier()
            self.producers = Producers()
            self.epochs.clear()
            self._keep_epochs()

    def increment_start_offset(self, offset: int) -> None:
        with self._lock:
            self._usable()
            if offset > self._end:
                raise OffsetOutOfRange(f"{self.name} ends at offset {self._end}: it cannot begin at {offset}")
            if offset > self._start:
                self._start = offset
                self._started_later()
                self.epochs.truncate_from_start(offset)
                self._keep_epochs()

    # -- left to who keeps the bytes ---------------------------------------------------------------

    @abstractmethod
    def flush(self) -> int: ...

    @abstractmethod
    def _usable(self) -> None:
        """Raises when this log cannot be used any more."""

    @abstractmethod
    def _store(self, buffer: bytes | bytearray, placed: list[Placed]) -> None: ...

    @abstractmethod
    def _read(self, offset: int, max_bytes: int, upto: int, at_least_one: bool) -> bytes: ...

    @abstractmethod
    def _batches_since(self, timestamp: int) -> Iterator[Candidate]:
        """In order, from one on before which no record is as late as that."""

    @abstractmethod
    def _batch_of_greatest(self) -> Candidate | None:
        """The first one that is still readable and whose time nobody exceeds."""

    @abstractmethod
    def _cut(self, offset: int) -> int:
        """Returns where it ends now."""

    @abstractmethod
    def _drop_all(self, offset: int) -> None: ...

    @abstractmethod
    def _started_later(self) -> None: ...

    @abstractmethod
    def _started_earlier(self) -> None:
        """Before anything is appended there."""

    @abstractmethod
    def _producers_at(self, offset: int) -> Producers:
        """As they were when the log ended there."""

    @abstractmethod
    def _keep_aborted(self, aborted: AbortedTxn) -> None:
        """Its end has just been stored."""

    @abstractmethod
    def _any_aborted(self, offset: int) -> bool:
        """Whether there may be any that reach behind this offset. Asked for every fetch of those who want to know."""

    @abstractmethod
    def _aborted(self, offset: int, upto: int) -> list[AbortedTxn]:
        """Those that begin before `upto` and end at `offset` or behind it."""

    @abstractmethod
    def _keep_epochs(self) -> None:
        """They may have changed."""


def remember(producers: Producers, header: Header, buffer: bytes | bytearray, at: int) -> AbortedTxn | None:
    """What a batch tells of its producer; of the end of a transaction also who ended it, and what was aborted."""
    if not header.control:
        producers.append(header)
        return None
    kind, coordinator_epoch = _end_in(buffer, at, header)
    return None if kind is None else producers.end(header, kind, coordinator_epoch)


def _end_in(buffer: bytes | bytearray, at: int, header: Header) -> tuple[ControlType | None, int]:
    """What the one record of a control batch says, and by which epoch of the coordinator."""
    for record in read_records(memoryview(buffer)[at : at + header.size]):
        return read_control(record)
    return ControlType.COMMIT, -1  # the cleaner has emptied it, as nothing was left of what it ended
