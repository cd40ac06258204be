"""The choice of the records that compaction keeps, computed from batches and the time. `log_cleaner` does the I/O.

The rules are those of Kafka's `Cleaner`. The last record of each key stays, with its offset and timestamp. A tombstone
stays for `delete.retention.ms` after it was first cleaned. Records of aborted transactions are removed. A transaction
marker stays as long as a batch of its transaction does, and from then on as long as a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from attrs import define, field

from replica.core.partitions.partition_log import AbortedTxn
from replica.wire.batch import DELETE_HORIZON, Header
from replica.wire.compression import Codec
from replica.wire.records import ControlType, Record, build, read_control, read_records

_DIGEST_BYTES: Final = 16


@define
class Compaction:
    """One round of cleaning one log.

    now_ms                the time of the round
    delete_retention_ms   how long a tombstone stays
    upto                  batches from this offset on are not cleaned
    latest                the last offset of each key in the dirty part
    aborted               the offset ranges of each producer's aborted transactions
    binding               offsets of the markers whose transactions still have batches: if such a marker were removed,
                          the producer's next batches would seem to belong to that transaction
    records_before, records_after   counts of records, for the broker's log
    """

    now_ms: int
    delete_retention_ms: int
    upto: int = 0
    latest: dict[bytes, int] = field(factory=dict)
    aborted: dict[int, list[tuple[int, int]]] = field(factory=dict)
    binding: set[int] = field(factory=set)
    records_before: int = 0
    records_after: int = 0
    _open: dict[int, int] = field(factory=dict)
    """The first offset of each transaction that is open at the current batch, by producer id."""
    _listed: set[int] = field(factory=set)
    """The marker offsets of the aborted transactions in the transaction indexes."""

    # -- the passes before the copy ----------------------------------------------------------------

    def note_aborted(self, listed: Iterable[AbortedTxn]) -> None:
        """Add the aborted transactions of the transaction indexes. Their markers may be after the cleaned part."""
        for each in listed:
            self.aborted.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
            self._listed.add(each.last_offset)

    def note_batch(self, header: Header) -> bool:
        """Track transactions from batch to batch. Return whether this batch is a marker that `note_marker` must
        read."""
        if not header.transactional:
            return False
        if not header.control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return False
        if header.producer_id not in self._open:
            return False
        self.binding.add(header.base_offset)
        if header.base_offset in self._listed:
            del self._open[header.producer_id]
            return False
        return True

    def note_marker(self, header: Header, batch: bytes) -> None:
        start = self._open.pop(header.producer_id)
        for record in read_records(batch):
            if read_control(record)[0] is ControlType.ABORT:
                self.aborted.setdefault(header.producer_id, []).append((start, record.offset))

    def has_keys(self, header: Header) -> bool:
        """Return whether records of this batch replace earlier ones with the same keys. Markers and records of aborted
        transactions do not."""
        return not (header.control or self.is_aborted(header))

    def note_keys(self, batch: bytes) -> None:
        for record in read_records(batch):
            if record.key is not None:
                self.latest[_digest(record.key)] = record.offset

    # -- the copy ----------------------------------------------------------------------------------

    def retained(self, header: Header, batch: bytes) -> bytes | None:
        """Return the batch with its remaining records, or None if none remain."""
        self.records_before += header.record_count
        if header.base_offset >= self.upto:
            self.records_after += header.record_count
            return batch
        records = list(read_records(batch))
        kept: list[Record] = []
        expires = False
        for record in records:
            stays, for_a_while = self._stays(header, record)
            if stays and for_a_while:
                stays = header.delete_horizon is None or self.now_ms < header.delete_horizon
                expires = True
            if stays:
                kept.append(record)
        self.records_after += len(kept)
        if not kept:
            return None
        if len(kept) == len(records) and (not expires or header.delete_horizon is not None):
            return batch
        return self._packed(header, kept, expires)

    def _stays(self, header: Header, record: Record) -> tuple[bool, bool]:
        """Return whether a record stays, and whether it stays only until the delete horizon of its batch, as tombstones
        and markers that are not in `binding` do."""
        if header.control:
            return True, record.offset not in self.binding
        if self.is_aborted(header):
            return False, False
        newest = record.key is not None and self.latest.get(_digest(record.key), -1) <= record.offset
        return newest, record.value is None

    def is_aborted(self, header: Header) -> bool:
        ranges = self.aborted.get(header.producer_id, ()) if header.transactional else ()
        return any(start <= header.base_offset <= end for start, end in ranges)

    def _packed(self, header: Header, kept: list[Record], expires: bool) -> bytes:
        flags, first = header.attributes & ~7, header.delete_horizon
        if expires and first is None:
            flags, first = flags | DELETE_HORIZON, self.now_ms + self.delete_retention_ms
        last = header.max_timestamp if header.log_append_time else None
        return _as(header, kept, header.codec, flags, first, last)


def emptied(header: Header) -> bytes:
    """Return the batch without its records. Its offsets and its sequences remain, so that the segment ends at the same
    offset, and a restart finds the producer's last sequence."""
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
    """Build a batch with these records, and with the offsets, epoch and producer of `header`."""
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
    """Return the key, or a 128-bit digest of a long key, to limit memory. Collisions are not expected."""
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
