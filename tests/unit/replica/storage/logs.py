"""What tests append."""

from __future__ import annotations

from typing import Final

from replica.core.partition_log import PartitionLog
from replica.wire.batch import walk
from replica.wire.compression import Codec
from replica.wire.records import Record, build, read_records

NOW: Final = 1_700_000_000_000
ALL: Final = 1 << 30


def batch(*values: bytes, time: int = NOW, key: bytes | None = None, codec: Codec = Codec.NONE) -> bytes:
    return build([Record(index, time, key, value) for index, value in enumerate(values)], codec=codec)


def numbered(base: int, epoch: int, *values: bytes, time: int = NOW) -> bytes:
    """As a leader has numbered it."""
    return build([Record(base + index, time, None, value) for index, value in enumerate(values)], leader_epoch=epoch)


def of_producer(producer_id: int, sequence: int, *values: bytes, epoch: int = 0, time: int = NOW) -> bytes:
    records = [Record(index, time, None, value) for index, value in enumerate(values)]
    return build(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def records_in(log: PartitionLog, offset: int | None = None) -> list[Record]:
    """All that can be read, batch by batch."""
    at = log.start_offset if offset is None else offset
    found: list[Record] = []
    while data := log.read(at, 1, log.end_offset).records:
        for position, header in walk(data):
            found += [record for record in read_records(data, position) if record.offset >= at]
            at = header.next_offset
    return found


def values_in(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in records_in(log, offset)]
