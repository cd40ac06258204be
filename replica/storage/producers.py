"""What idempotent producers wrote last, so that a batch that is sent twice is kept once, also by the next leader.

A leader asks `check` before it appends. Everybody updates by `append`, from the batches alone: so a follower knows as
much as its leader, and what is read again from the log after a crash gives the same state.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import Final

import google_crc32c
from attrs import define, field, frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.wire.batch import Header

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

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def all(self) -> dict[int, Producer]:
        return dict(self._by_id)

    @property
    def first_open(self) -> int | None:
        """Where the oldest open transaction began."""
        return min((each.txn_start for each in self._by_id.values() if each.txn_start >= 0), default=None)

    def check(self, header: Header) -> Written | None:
        """For a leader, before it appends: the batch as it was written already, or None: it is the next one."""
        known = self._by_id.get(header.producer_id)
        if known is None:
            return None  # never heard of, or forgotten since: any sequence will do
        who = f"producer {header.producer_id}"
        if header.producer_epoch < known.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"{who} of epoch {header.producer_epoch}: epoch {known.epoch} has written here since",
            )
        if header.producer_epoch > known.epoch:
            if header.base_sequence != 0 and known.epoch >= 0:
                raise _out_of_order(
                    f"{who} begins epoch {header.producer_epoch} with sequence {header.base_sequence}, and not with 0"
                )
            return None
        for written in known.batches:
            if (written.first_sequence, written.last_sequence) == (header.base_sequence, header.last_sequence):
                return written
        if not known.batches:
            return None  # only ends of transactions are known of this epoch
        expected = (known.last_sequence + 1) % SEQUENCES
        if header.base_sequence != expected:
            raise _out_of_order(f"{who} sends sequence {header.base_sequence}, and {expected} is the next one")
        return None

    def append(self, header: Header, coordinator_epoch: int = -1) -> None:
        """The batch is in the log. `coordinator_epoch`: what the end of a transaction says."""
        if header.producer_id < 0:
            return
        known = self._by_id.get(header.producer_id)
        if known is None:
            known = self._by_id[header.producer_id] = Producer(header.producer_epoch, deque(maxlen=BATCHES), -1)
        if header.producer_epoch != known.epoch:
            known.epoch = header.producer_epoch
            known.batches.clear()
        known.timestamp, known.silent_since = header.max_timestamp, None
        if header.control:
            known.txn_start = -1
            known.coordinator_epoch = max(known.coordinator_epoch, coordinator_epoch)
            return
        if header.transactional and known.txn_start < 0:
            known.txn_start = header.base_offset
        known.batches.append(
            Written(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )

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
    for producer_id, written in last.items():
        producers._by_id[producer_id].batches.append(written)
    return producers


def _written(sequence: int, offset: int, delta: int, timestamp: int) -> Written:
    return Written((sequence - delta) % SEQUENCES, sequence, offset - delta, offset, timestamp)


def _out_of_order(text: str) -> KafkaError:
    return KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
