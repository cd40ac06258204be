"""The state of idempotent and transactional producers in one log (Kafka: ProducerStateManager).

A leader calls `check` before it appends, so that a retried batch is stored only once. Apart from the expiry of idle
producers, only stored batches change the state, on leaders and followers alike. So a follower has its leader's state, a
new leader recognizes retries, and a replay of the log after a crash restores the state.

A transaction starts with the producer's first transactional batch and ends with a marker. The last stable offset is
not beyond the start of a transaction that is open, or whose marker is not committed yet.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import Final

import google_crc32c
from attrs import define, field, frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import AbortedTxn, ActiveProducer
from replica.wire.batch import Header
from replica.wire.records import ControlType, read_control, read_records

BATCHES_MAX: Final = 5
"""The number of batches that a producer may have in flight, and so may retry."""
SEQUENCE_RANGE: Final = 1 << 31
EXPIRATION_MS: Final = 86_400_000

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_OLDER: Final = Struct(">qiqiq")
_MARKER: Final = Struct(">qq")
_VERSION: Final = 1


@frozen
class BatchMetadata:
    """Sequences and offsets of one batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@define
class ProducerStateEntry:
    """The state of one producer.

    epoch               the latest producer epoch
    batches             its last batches of that epoch, the oldest first
    timestamp           the timestamp of its last batch or marker
    coordinator_epoch   the greatest coordinator epoch of its markers, or -1
    txn_start           first offset of its open transaction, or -1
    silent_since        the time of the call of `remove_expired` that first found it idle; None: it has written since
                        the last call
    """

    epoch: int
    batches: deque[BatchMetadata]
    timestamp: int
    coordinator_epoch: int = -1
    txn_start: int = -1
    silent_since: int | None = field(default=None, eq=False)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class ProducerStateManager:
    """The producers of one log, by id.

    first_open_offset   first offset of the oldest open transaction, or None
    unreplicated        marker offset and first offset of each completed transaction whose marker may be uncommitted, in
                        the order of the markers
    any_completed       True if the log is known to have had a transaction marker
    """

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerStateEntry] = {}
        self._open: dict[int, int] = {}
        self.unreplicated: deque[tuple[int, int]] = deque()
        self.first_open_offset: int | None = None
        self.any_completed = False

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerStateManager) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        return self._by_id.get(producer_id)

    def entries(self) -> dict[int, ProducerStateEntry]:
        return dict(self._by_id)

    def active(self) -> tuple[ActiveProducer, ...]:
        return tuple(
            ActiveProducer(
                each, known.epoch, known.last_sequence, known.timestamp, known.coordinator_epoch, known.txn_start
            )
            for each, known in sorted(self._by_id.items())
        )

    # -- the last stable offset --------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the greatest offset, at most the high watermark, before which no transaction starts that is open or
        whose marker is not committed."""
        holding = [start for end, start in tuple(self.unreplicated) if end >= high_watermark]
        if self.first_open_offset is not None:
            holding.append(self.first_open_offset)
        return min([high_watermark, *holding])

    def on_high_watermark_updated(self, offset: int) -> None:
        while self.unreplicated and self.unreplicated[0][0] < offset:
            self.unreplicated.popleft()

    # -- checks of appended batches ----------------------------------------------------------------

    def check(self, header: Header) -> BatchMetadata | None:
        """Check a client's batch before the leader appends it (Kafka: ProducerAppendInfo.maybeValidateDataBatch).

        Return the stored batch if this one is a retry; None if it is new. An unknown producer may start with any
        sequence, because its state may have expired; so may one whose epoch has only markers. Others must continue
        their sequence, or start a newer epoch with sequence 0. Raises `KafkaError` for an older epoch, for another
        sequence, and for a batch that is not transactional while the producer has an open transaction.
        """
        known = self._by_id.get(header.producer_id)
        if known is None:
            return None
        producer = f"producer {header.producer_id}"
        _check_epoch(known, header)
        if header.producer_epoch == known.epoch:
            for written in known.batches:
                if (written.first_sequence, written.last_sequence) == (header.base_sequence, header.last_sequence):
                    return written
        if known.txn_start >= 0 and not header.transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"{producer} has had a transaction open since offset {known.txn_start}, "
                "but this batch is not transactional",
            )
        if header.producer_epoch > known.epoch:
            if header.base_sequence != 0 and known.epoch >= 0:
                raise _out_of_order(
                    f"{producer} begins epoch {header.producer_epoch} with sequence {header.base_sequence}, not with 0"
                )
            return None
        if not known.batches:
            return None  # this epoch has only transaction markers so far
        expected = (known.last_sequence + 1) % SEQUENCE_RANGE
        if header.base_sequence != expected:
            raise _out_of_order(f"{producer} sent sequence {header.base_sequence}, but {expected} is expected")
        return None

    def check_of_coordinator(self, header: Header, coordinator_epoch: int = -1) -> None:
        """Check a batch that a coordinator writes for a producer. It has no sequence, so only the epochs are
        checked. Raises `KafkaError` if one is older than a known one."""
        known = self._by_id.get(header.producer_id)
        if known is None:
            return
        _check_epoch(known, header)
        if header.control and coordinator_epoch < known.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is fenced for producer {header.producer_id}: "
                f"coordinator epoch {known.coordinator_epoch} has already written a marker",
            )

    def update(self, header: Header) -> None:
        """Record a batch that the log has stored."""
        if header.producer_id < 0:
            return
        known = self._entry_for(header)
        if header.transactional and known.txn_start < 0:
            known.txn_start = self._open[header.producer_id] = header.base_offset
            if self.first_open_offset is None:
                self.first_open_offset = header.base_offset
        if header.base_sequence < 0:
            return  # a coordinator wrote it for the producer, and does not retry it
        known.batches.append(
            BatchMetadata(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )

    def complete_transaction(self, header: Header, kind: ControlType, coordinator_epoch: int) -> AbortedTxn | None:
        """Record a transaction marker that the log has stored, and return the transaction if the marker aborts it.

        A marker without an open transaction, or a repeated one, completes nothing, but updates the epochs.
        """
        known = self._entry_for(header)
        known.coordinator_epoch, self.any_completed = max(known.coordinator_epoch, coordinator_epoch), True
        start = known.txn_start
        if start < 0:
            return None
        known.txn_start = -1
        del self._open[header.producer_id]
        if start == self.first_open_offset:
            self.first_open_offset = min(self._open.values(), default=None)
        self.unreplicated.append((header.last_offset, start))
        if kind is ControlType.COMMIT:
            return None
        stable = header.next_offset if self.first_open_offset is None else self.first_open_offset
        return AbortedTxn(header.producer_id, start, header.last_offset, stable)

    def replay(self, header: Header, buffer: bytes | bytearray, at: int) -> AbortedTxn | None:
        """Record the stored batch or marker at position `at` of a buffer. Return the transaction that it aborts,
        or None."""
        if not header.control:
            self.update(header)
            return None
        kind, coordinator_epoch = marker_in(buffer, at, header)
        return None if kind is None else self.complete_transaction(header, kind, coordinator_epoch)

    def _entry_for(self, header: Header) -> ProducerStateEntry:
        known = self._by_id.get(header.producer_id)
        if known is None:
            known = ProducerStateEntry(header.producer_epoch, deque(maxlen=BATCHES_MAX), -1)
            self._by_id[header.producer_id] = known
        if header.producer_epoch != known.epoch:
            known.epoch = header.producer_epoch
            known.batches.clear()
        known.timestamp, known.silent_since = header.max_timestamp, None
        return known

    def remove_expired(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> None:
        """Remove producers without an open transaction that have been idle for this time.

        The time counts from the first call that found the producer idle, by the caller's clock. Timestamps of records
        can be wrong: with them, a producer could be removed early, and its retry stored twice.
        """
        for each, known in list(self._by_id.items()):
            if known.silent_since is None:
                known.silent_since = now_ms
            elif known.txn_start < 0 and now_ms - known.silent_since > expiration_ms:
                del self._by_id[each]

    # -- snapshot files ----------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Encode a snapshot in Kafka's format, which has one batch for each producer. Older batches and `unreplicated`
        follow the entries; Kafka ignores them."""
        entries, older = [], []
        for producer_id, known in sorted(self._by_id.items()):
            last = known.batches[-1] if known.batches else BatchMetadata(-1, -1, -1, -1, known.timestamp)
            entries.append(
                _ENTRY.pack(
                    producer_id,
                    known.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.first_offset,
                    known.timestamp,
                    known.coordinator_epoch,
                    known.txn_start,
                )
            )
            for each in list(known.batches)[:-1]:
                delta = each.last_offset - each.first_offset
                older.append(_OLDER.pack(producer_id, each.last_sequence, each.last_offset, delta, each.timestamp))
        markers = [_MARKER.pack(*each) for each in self.unreplicated]
        body = b"".join(_COUNT.pack(len(each)) + b"".join(each) for each in (entries, older, markers))
        return _HEAD.pack(_VERSION, google_crc32c.value(body)) + body

    @staticmethod
    def decode(data: bytes) -> ProducerStateManager:
        """Decode a snapshot. Raises `ValueError` if it is malformed."""
        try:
            return _decode(data)
        except StructError as error:
            raise ValueError(f"truncated producer snapshot: {error}") from error


def _decode(data: bytes) -> ProducerStateManager:
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"the producer snapshot has version {version}, but only version {_VERSION} is supported")
    if google_crc32c.value(data[_HEAD.size :]) != crc:
        raise ValueError("the producer snapshot has a wrong checksum")
    producers = ProducerStateManager()
    at = _HEAD.size
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    last: dict[int, BatchMetadata] = {}
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, txn = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        producers._by_id[producer_id] = ProducerStateEntry(
            epoch, deque(maxlen=BATCHES_MAX), timestamp, coordinator, txn
        )
        if txn >= 0:
            producers._open[producer_id] = txn
        producers.any_completed |= coordinator >= 0
        if sequence >= 0:
            last[producer_id] = _written(sequence, offset, delta, timestamp)
    if at < len(data):  # a snapshot written by Kafka ends here
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            producer_id, sequence, offset, delta, timestamp = _OLDER.unpack_from(data, at)
            at += _OLDER.size
            if producer_id not in producers._by_id:
                raise ValueError(f"the producer snapshot has batches but no entry of producer {producer_id}")
            producers._by_id[producer_id].batches.append(_written(sequence, offset, delta, timestamp))
    if at < len(data):  # a snapshot of an earlier release ends here
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for place in range(count):
            producers.unreplicated.append(_MARKER.unpack_from(data, at + place * _MARKER.size))
    producers.first_open_offset = min(producers._open.values(), default=None)
    for producer_id, written in last.items():
        producers._by_id[producer_id].batches.append(written)
    return producers


def _written(sequence: int, offset: int, delta: int, timestamp: int) -> BatchMetadata:
    return BatchMetadata((sequence - delta) % SEQUENCE_RANGE, sequence, offset - delta, offset, timestamp)


def _check_epoch(known: ProducerStateEntry, header: Header) -> None:
    if header.producer_epoch < known.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {header.producer_epoch} of producer {header.producer_id} is fenced by epoch {known.epoch}",
        )


def _out_of_order(text: str) -> KafkaError:
    return KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)


def marker_in(buffer: bytes | bytearray, at: int, header: Header) -> tuple[ControlType | None, int]:
    """Return the type of the only record in a control batch, and its coordinator epoch. The type is None if it is
    unknown. For a batch that the cleaner emptied, return COMMIT and -1."""
    for record in read_records(memoryview(buffer)[at : at + header.size]):
        return read_control(record)
    return ControlType.COMMIT, -1  # the cleaner emptied the marker, because no batch of its transaction is left
