"""Reading and building record batches.

A broker builds batches for coordinators' records, for transaction markers, and when the cleaner removes records.
Otherwise it stores producers' records unchanged, except that `repack` recompresses them if the topic requires another
codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from replica.core.errors import ErrorCode, KafkaError
from replica.wire import varint
from replica.wire.batch import CONTROL, HEADER_BYTES, MAGIC, PREFIX, TRANSACTIONAL, Header, parse_header, seal
from replica.wire.compression import READ_BYTES_MAX, Bytes, Codec, deflate, inflate
from zab.core.frozen import frozen


@frozen
class Record:
    """A record. Header keys are decoded with `surrogateescape`, so that encoding restores bytes that are not UTF-8."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1


_CONTROL_KEY: Final = Struct(">hh")
_CONTROL_VALUE: Final = Struct(">hi")


# -- records -------------------------------------------------------------------------------------------


def read_records(data: Bytes, at: int = 0, bytes_max: int = READ_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of a batch. Raises `KafkaError`: INVALID_RECORD if they are malformed, MESSAGE_TOO_LARGE above
    `bytes_max` after decompression, UNSUPPORTED_COMPRESSION_TYPE for an unknown codec."""
    header = parse_header(data, at)
    body = memoryview(data)[at + HEADER_BYTES : at + header.size]
    records = inflate(header.codec, body, bytes_max)
    position = 0
    try:
        for _ in range(header.record_count):
            record, position = _read_record(records, position, header)
            yield record
    except (IndexError, ValueError) as error:
        raise _broken_off(header, error) from error


def read_times(data: Bytes, bytes_max: int = READ_BYTES_MAX) -> Iterator[tuple[int, int]]:
    """Yield the offset and timestamp of each record. Raises the errors of `read_records`, except that keys, values and
    headers are neither read nor checked."""
    header = parse_header(data)
    records = inflate(header.codec, memoryview(data)[HEADER_BYTES : header.size], bytes_max)
    decode, fixed = varint.decode, header.max_timestamp if header.log_append_time else None
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = decode(records, at)
            end = at + size
            if size < 0 or end > len(records):
                raise ValueError(f"a record declares {size} bytes, but {len(records) - at} are left")
            time, at = decode(records, at + 1)
            delta, at = decode(records, at)
            yield header.base_offset + delta, header.base_timestamp + time if fixed is None else fixed
            at = end
    except (IndexError, ValueError) as error:
        raise _broken_off(header, error) from error


def _broken_off(header: Header, error: Exception) -> KafkaError:
    text = f"the batch at offset {header.base_offset} has malformed records: {error}"
    return KafkaError(ErrorCode.INVALID_RECORD, text)


def _read_record(data: Bytes, at: int, header: Header) -> tuple[Record, int]:
    size, at = varint.decode(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise ValueError(f"a record declares {size} bytes, but {len(data) - at} are left")
    at += 1  # skip the record's attributes, which are unused
    timestamp, at = varint.decode(data, at)
    delta, at = varint.decode(data, at)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    count, at = varint.decode(data, at)
    if not 0 <= count <= end - at:
        raise ValueError(f"a record declares {count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise ValueError("a record has a header without a key")
        content, at = _read_bytes(data, at, end)
        headers.append((name.decode(errors="surrogateescape"), content))
    if at != end:
        raise ValueError(f"a record ends at byte {end}, but its fields end at byte {at}")
    time = header.max_timestamp if header.log_append_time else header.base_timestamp + timestamp
    return Record(header.base_offset + delta, time, key, value, tuple(headers)), end


def _read_bytes(data: Bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = varint.decode(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise ValueError(f"a key or value declares {size} bytes, but {end - at} are left")
    return bytes(data[at : at + size]), at + size


def _write_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        varint.encode(record.timestamp - base_timestamp),
        varint.encode(record.offset - base_offset),
        *_write_bytes(record.key),
        *_write_bytes(record.value),
        varint.encode(len(record.headers)),
    ]
    for name, content in record.headers:
        parts += _write_bytes(name.encode(errors="surrogateescape"))
        parts += _write_bytes(content)
    return varint.encode(sum(map(len, parts))) + b"".join(parts)


def _write_bytes(content: bytes | None) -> tuple[bytes, ...]:
    return (varint.encode(-1),) if content is None else (varint.encode(len(content)), content)


# -- building ------------------------------------------------------------------------------------------


def build(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    flags: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Build a batch of records with their offsets and timestamps.

    The header's offsets and timestamps default to those of the records; without records the offsets are required. The
    cleaner passes the offsets of the original batch, and the delete horizon as base timestamp if the batch has one.
    """
    base = base_offset if base_offset is not None else records[0].offset
    last = last_offset if last_offset is not None else records[-1].offset
    first_time = base_timestamp if base_timestamp is not None else (records[0].timestamp if records else -1)
    max_time = max_timestamp if max_timestamp is not None else max((each.timestamp for each in records), default=-1)
    body = b"".join(_write_record(each, base, first_time) for each in records)
    if body:
        body = deflate(codec, body)
    fields = (
        flags | codec,
        last - base,
        first_time,
        max_time,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return seal((base, HEADER_BYTES - PREFIX.size + len(body), leader_epoch, MAGIC, 0, *fields), body)


def repack(data: Bytes, codec: Codec, bytes_max: int = READ_BYTES_MAX) -> bytes:
    """Return the batch compressed with another codec."""
    header = parse_header(data)
    body = bytes(inflate(header.codec, memoryview(data)[HEADER_BYTES : header.size], bytes_max))
    packed = deflate(codec, body)
    attributes = header.attributes & ~7 | codec
    return seal(header._replace(length=HEADER_BYTES - PREFIX.size + len(packed), attributes=attributes), packed)


def batch_of(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    timestamp: int,
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    transaction: tuple[int, int] | None = None,
) -> bytes:
    """Build a coordinator's batch of (key, value) pairs, with one timestamp and without sequence numbers.

    `transaction`: the producer id and epoch, if the batch belongs to a transaction.
    """
    records = [Record(base_offset + index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    if transaction is None:
        return build(records, codec=codec)
    producer, epoch = transaction
    return build(records, codec=codec, producer_id=producer, producer_epoch=epoch, flags=TRANSACTIONAL)


def control_batch(
    kind: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
) -> bytes:
    """Build the marker that ends a producer's transaction."""
    record = Record(base_offset, timestamp, _CONTROL_KEY.pack(0, kind), _CONTROL_VALUE.pack(0, coordinator_epoch))
    return build([record], producer_id=producer_id, producer_epoch=producer_epoch, flags=TRANSACTIONAL | CONTROL)


def read_control(record: Record) -> tuple[ControlType | None, int]:
    """Return the type and the coordinator epoch of a control record. An unknown type is returned as None."""
    if record.key is None or len(record.key) < 4 or record.value is None or len(record.value) < 6:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the control record at offset {record.offset} is too short")
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    _, epoch = _CONTROL_VALUE.unpack_from(record.value)
    return (ControlType(kind) if kind in (0, 1) else None), epoch
