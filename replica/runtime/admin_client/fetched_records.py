"""The records of a fetch response that a reader wants, in order."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from replica.core.errors import KafkaError
from replica.wire.batch import check, walk
from replica.wire.compression import READ_BYTES_MAX
from replica.wire.records import ControlType, Record, read_control, read_records


@frozen
class FetchedRecords:
    """next_offset   where to continue after these records: behind the last sound batch
    damage        the reason why the batch there cannot be read; None if none is damaged
    """

    records: list[Record]
    next_offset: int
    damage: str | None = None


def wanted_records(
    data: bytes,
    first: int,
    end: int | None = None,
    aborted: Collection[tuple[int, int]] = (),
    bytes_max: int = READ_BYTES_MAX,
) -> FetchedRecords:
    """Return the records from the offset `first` on and before `end` (None: no end).

    Batches are fetched whole, so the first may begin before `first`, and the last may end after `end`. A compacted
    batch may be empty, or have no records at its last offsets. `aborted`: the first offset and producer id of each
    aborted transaction, which ends at its marker; its records are left out. A batch with more than `bytes_max` after
    decompression raises `KafkaError`.
    """
    found: list[Record] = []
    following = first
    begins = sorted(aborted, reverse=True)
    dropped: set[int] = set()
    for at, header in walk(data):
        try:
            check(data, at)
        except KafkaError as error:
            damage = f"the batch at offset {header.base_offset} is damaged: {error.text}"
            return FetchedRecords(found, following, damage)
        following = header.next_offset
        while begins and begins[-1][0] <= header.last_offset:
            dropped.add(begins.pop()[1])
        if header.control:
            if _is_abort(data, at):
                dropped.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in dropped):
            found.extend(
                record
                for record in read_records(data, at, bytes_max)
                if record.offset >= first and (end is None or record.offset < end)
            )
    return FetchedRecords(found, following)


def _is_abort(data: bytes, at: int) -> bool:
    return any(read_control(record)[0] is ControlType.ABORT for record in read_records(data, at))
