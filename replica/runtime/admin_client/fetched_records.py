"""The records of a fetch response that a reader wants, in order."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError
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
    records_max: int | None = None,
) -> FetchedRecords:
    """Return the records from the offset `first` on and before `end` (None: no end).

    Batches are fetched whole, so the first may begin before `first`, and the last may end after `end`. A compacted
    batch may be empty, or have no records at its last offsets. `aborted`: the first offset and producer id of each
    aborted transaction, which ends at its marker; its records are left out.

    `bytes_max` after decompression and `records_max` (None: any number) bound the result: it ends before the batch that
    would exceed one of them. If that is the first batch, raise `KafkaError` with MESSAGE_TOO_LARGE.
    """
    found: list[Record] = []
    following, left_bytes, left_records = first, bytes_max, records_max
    read_any = False
    begins = sorted(aborted, reverse=True)
    dropped: set[int] = set()
    for at, header in walk(data):
        try:
            check(data, at)
        except KafkaError as error:
            damage = f"the batch at offset {header.base_offset} is damaged: {error.text}"
            return FetchedRecords(found, following, damage)
        while begins and begins[-1][0] <= header.last_offset:
            dropped.add(begins.pop()[1])
        if header.control:
            if _is_abort(data, at):
                dropped.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in dropped):
            try:
                if left_records is not None and header.record_count > left_records:
                    why = f"the batch at offset {header.base_offset} has {header.record_count} records"
                    raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{why}; at most {records_max} are read")
                records = list(read_records(data, at, left_bytes))
            except KafkaError as error:
                if read_any and error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    return FetchedRecords(found, following)
                raise
            left_bytes -= sum(len(each.key or b"") + len(each.value or b"") for each in records)
            left_records = None if left_records is None else left_records - len(records)
            found += [each for each in records if each.offset >= first and (end is None or each.offset < end)]
        following, read_any = header.next_offset, header.next_offset > first
    return FetchedRecords(found, following)


def _is_abort(data: bytes, at: int) -> bool:
    return any(read_control(record)[0] is ControlType.ABORT for record in read_records(data, at))
