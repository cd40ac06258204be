"""What idempotent producers wrote last, so that a batch that is sent twice is kept once, also by the next leader.

A leader asks `check` before it appends. Everybody updates by `append`, from the batches alone: so a follower knows as
much as its leader, and what is read again from the log after a crash gives the same state.

A producer's transaction begins with its first batch that says so, and ends where `end` is told. What is open, and what
has ended where nobody knows yet that it is committed, holds back those who read only what is.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import Final

import google_crc32c
from attrs import define, field, frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partition_log import AbortedTxn, ActiveProducer
from replica.wire.batch import Header
from replica.wire.records import ControlType

BATCHES: Final = 5
"""As many batches of one producer may be under way at a time, hence may come once more."""
SEQUENCES: Final = 1 << 31
EXPIRATION_MS: Final = 86_400_000

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_OLDER: Final = Struct(">qiqiq")
_VERSION: Final = 1


@frozen
class Written:
    """One batch of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@define
class Producer:
    epoch: int
    batches: deque[Written]
    timestamp: int
    coordinator_epoch: int = -1
    txn_start: int = -1
    """Where its open transaction began; -1 without one."""
    silent_since: int | None = field(default=None, eq=False)
    """By the clock of who looks at it now and then; None: it has written since he looked last."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class Producers:
    """The producers of one partition, by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        self.ended: deque[tuple[int, int]] = deque()
        """Of each transaction whose end may not be committed yet: where that stands, and where it began."""
        self.first_open: int | None = None
        """Where the oldest open transaction began."""
        self.any_ended = False
        """Whether there was ever a transaction here that has ended, for all that is known."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def all(self) -> dict[int, Producer]:
        return dict(self._by_id)

    def active(self) -> tuple[ActiveProducer, ...]:
        return tuple(
            ActiveProducer(
                each, known.epoch, known.last_sequence, known.timestamp, known.coordinator_epoch, known.txn_start
            )
            for each, known in sorted(self._by_id.items())
        )

    # -- who reads only what was committed ---------------------------------------------------------

    def stable(self, watermark: int) -> int:
        """Below it everything is decided, and what was decided is committed."""
        holding = [start for end, start in tuple(self.ended) if end >= watermark]
        if self.first_open is not None:
            holding.append(self.first_open)
        return min([watermark, *holding])

    def on_high_watermark_updated(self, offset: int) -> None:
        while self.ended and self.ended[0][0] < offset:
            self.ended.popleft()

    # -- what is written ---------------------------------------------------------------------------

    def check(self, header: Header) -> Written | None:
        """For a leader, before it appends: the batch as it was written already, or None: it is the next one."""
        known = self._by_id.get(header.producer_id)
        if known is None:
            return None  # never heard of, or forgotten since: any sequence will do
        who = f"producer {header.producer_id}"
        _check_epoch(known, header)
        if header.producer_epoch == known.epoch:
            for written in known.batches:
                if (written.first_sequence, written.last_sequence) == (header.base_sequence, header.last_sequence):
                    return written
        if known.txn_start >= 0 and not header.transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"{who} has a transaction open since offset {known.txn_start}, and this batch is not of it",
            )
        if header.producer_epoch > known.epoch:
            if header.base_sequence != 0 and known.epoch >= 0:
                raise _out_of_order(
                    f"{who} begins epoch {header.producer_epoch} with sequence {header.base_sequence}, and not with 0"
                )
            return None
        if not known.batches:
            return None  # only ends of transactions are known of this epoch
        expected = (known.last_sequence + 1) % SEQUENCES
        if header.base_sequence != expected:
            raise _out_of_order(f"{who} sends sequence {header.base_sequence}, and {expected} is the next one")
        return None

    def check_of_coordinator(self, header: Header, coordinator_epoch: int = -1) -> None:
        """The same of what a coordinator writes in the name of a producer, in which no sequence counts. For the end of
        a transaction it says in which epoch of its own it decided that."""
        known = self._by_id.get(header.producer_id)
        if known is None:
            return
        _check_epoch(known, header)
        if header.control and coordinator_epoch < known.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the end of a transaction of producer {header.producer_id}, by a coordinator of epoch "
                f"{coordinator_epoch}: one of epoch {known.coordinator_epoch} has ended another since",
            )

    def append(self, header: Header) -> None:
        """The batch is in the log."""
        if header.producer_id < 0:
            return
        known = self._known(header)
        if header.transactional and known.txn_start < 0:
            known.txn_start = self._open[header.producer_id] = header.base_offset
            if self.first_open is None:
                self.first_open = header.base_offset
        if header.base_sequence < 0:
            return  # a coordinator has written it for the producer, and would not write it twice
        known.batches.append(
            Written(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )

    def end(self, header: Header, kind: ControlType, coordinator_epoch: int) -> AbortedTxn | None:
        """The end of a transaction is in the log; what was aborted by it. One of a transaction that wrote nothing here,
        or that is said once more, ends nothing, and still tells which epochs count from now on."""
        known = self._known(header)
        known.coordinator_epoch, self.any_ended = max(known.coordinator_epoch, coordinator_epoch), True
        start = known.txn_start
        if start < 0:
            return None
        known.txn_start = -1
        del self._open[header.producer_id]
        if start == self.first_open:
            self.first_open = min(self._open.values(), default=None)
        self.ended.append((header.last_offset, start))
        if kind is ControlType.COMMIT:
            return None
        stable = header.next_offset if self.first_open is None else self.first_open
        return AbortedTxn(header.producer_id, start, header.last_offset, stable)

    def _known(self, header: Header) -> Producer:
        known = self._by_id.get(header.producer_id)
        if known is None:
            known = self._by_id[header.producer_id] = Producer(header.producer_epoch, deque(maxlen=BATCHES), -1)
        if header.producer_epoch != known.epoch:
            known.epoch = header.producer_epoch
            known.batches.clear()
        known.timestamp, known.silent_since = header.max_timestamp, None
        return known

    def expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> None:
        """Who has not written for so long, and has no transaction open, is forgotten: ids are never used again.

        What counts is when he was last seen to have written, by this clock, and not what his records say: they may be
        of any time. Who were forgotten for that would have what he sends again written twice.
        """
        for each, known in list(self._by_id.items()):
            if known.silent_since is None:
                known.silent_since = now_ms
            elif known.txn_start < 0 and now_ms - known.silent_since > expiration_ms:
                del self._by_id[each]

    # -- as a snapshot file ------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Kafka's layout knows one batch of each producer. The older ones stand behind what its readers look at."""
        entries, older = [], []
        for producer_id, known in sorted(self._by_id.items()):
            last = known.batches[-1] if known.batches else Written(-1, -1, -1, -1, known.timestamp)
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
        body = _COUNT.pack(len(entries)) + b"".join(entries) + _COUNT.pack(len(older)) + b"".join(older)
        return _HEAD.pack(_VERSION, google_crc32c.value(body)) + body

    @staticmethod
    def decode(data: bytes) -> Producers:
        """`ValueError` where these are not the bytes of a snapshot."""
        try:
            return _decode(data)
        except StructError as error:
            raise ValueError(f"a snapshot of producers that is cut off: {error}") from error


def _decode(data: bytes) -> Producers:
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"a snapshot of producers of version {version}, and {_VERSION} is known")
    if google_crc32c.value(data[_HEAD.size :]) != crc:
        raise ValueError("a snapshot of producers with a wrong checksum")
    producers = Producers()
    at = _HEAD.size
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    last: dict[int, Written] = {}
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, txn = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        producers._by_id[producer_id] = Producer(epoch, deque(maxlen=BATCHES), timestamp, coordinator, txn)
        if txn >= 0:
            producers._open[producer_id] = txn
        producers.any_ended |= coordinator >= 0
        if sequence >= 0:
            last[producer_id] = _written(sequence, offset, delta, timestamp)
    if at < len(data):  # Kafka's own files end here
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            producer_id, sequence, offset, delta, timestamp = _OLDER.unpack_from(data, at)
            at += _OLDER.size
            if producer_id not in producers._by_id:
                raise ValueError(f"a snapshot of producers with batches of {producer_id}, of whom it says nothing else")
            producers._by_id[producer_id].batches.append(_written(sequence, offset, delta, timestamp))
    producers.first_open = min(producers._open.values(), default=None)
    for producer_id, written in last.items():
        producers._by_id[producer_id].batches.append(written)
    return producers


def _written(sequence: int, offset: int, delta: int, timestamp: int) -> Written:
    return Written((sequence - delta) % SEQUENCES, sequence, offset - delta, offset, timestamp)


def _check_epoch(known: Producer, header: Header) -> None:
    if header.producer_epoch < known.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} of epoch {header.producer_epoch}: epoch {known.epoch} has written since",
        )


def _out_of_order(text: str) -> KafkaError:
    return KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
