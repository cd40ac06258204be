"""Record batches of magic 2, as in logs and in Produce and Fetch requests.

A batch is a header of 61 bytes and records that are compressed together. A leader writes the base offset and the leader
epoch in place: the checksum does not cover them. These functions work on the bytes in place, and copy them only to
compute a checksum or to build a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c

from replica.core.errors import ErrorCode, KafkaError
from replica.wire.compression import Bytes, Codec, codec_of

MAGIC: Final = 2
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
PREFIX: Final = Struct(">qi")
"""The base offset, and the number of bytes that follow this prefix. The prefix suffices to skip a batch."""

_STAMP: Final = Struct(">qiib")
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_SEQUENCES: Final = 1 << 31

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class Header(NamedTuple):
    """A batch header, with the fields in their order on the wire. It is a named tuple for speed, because each batch has
    one."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + PREFIX.size

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_delta + 1

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.last_delta) % _SEQUENCES if self.base_sequence >= 0 else -1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """The time in milliseconds from which the cleaner may remove this batch's tombstones or transaction marker;
        None if it is not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


# -- reading -------------------------------------------------------------------------------------------


def parse_header(data: Bytes, at: int = 0) -> Header:
    """Parse a header without checks. The data must contain the whole header."""
    return Header._make(HEADER.unpack_from(data, at))


def check(data: Bytes, at: int = 0) -> Header:
    """Return the header of a complete batch. Raises `KafkaError` CORRUPT_MESSAGE if it is truncated or damaged."""
    left = len(data) - at
    if left < HEADER_BYTES:
        raise corrupt(f"{left} bytes are left for a batch of at least {HEADER_BYTES}")
    header = parse_header(data, at)
    if header.magic != MAGIC:
        raise corrupt(f"a batch of magic {header.magic}; only {MAGIC} is supported")
    size = header.length + PREFIX.size
    if size < HEADER_BYTES or size > left:
        raise corrupt(f"a batch declares a size of {size} bytes; {HEADER_BYTES} to {left} are possible")
    if header.last_delta < 0 or header.base_offset < 0 or header.record_count < 0:
        raise corrupt(
            f"a batch has base offset {header.base_offset}, last offset delta {header.last_delta} "
            f"and {header.record_count} records; none may be negative"
        )
    found = checksum(data, at, header)
    if found != header.crc:
        raise corrupt(
            f"the batch at offset {header.base_offset} has the checksum {header.crc:08x}; its bytes give {found:08x}"
        )
    return header


def checksum(data: Bytes, at: int, header: Header) -> int:
    """Compute a batch's checksum. The batch is copied, because the library accepts no memoryview."""
    return int(google_crc32c.value(bytes(data[at + _CHECKED_AT : at + header.length + PREFIX.size])))


def walk(data: Bytes, at: int = 0) -> Iterator[tuple[int, Header]]:
    """Yield position and header of each complete batch. Stop at a truncated batch.

    Raises `KafkaError` CORRUPT_MESSAGE at bytes that are not a batch, since the next batch cannot be found.
    """
    end = len(data)
    while end - at >= HEADER_BYTES:
        header = parse_header(data, at)
        size = header.length + PREFIX.size
        if size < HEADER_BYTES or header.magic != MAGIC:
            raise corrupt(f"the bytes at {at} are not a batch: size {size}, magic {header.magic}")
        if size > end - at:
            return
        yield at, header
        at += size


def corrupt(text: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, text)


# -- filling in ---------------------------------------------------------------------------------------


def stamp(buffer: bytearray, at: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into a batch. The checksum does not cover them."""
    _STAMP.pack_into(buffer, at, base_offset, int.from_bytes(buffer[at + 8 : at + 12], "big"), leader_epoch, MAGIC)


def stamp_append_time(buffer: bytearray, at: int, now_ms: int) -> None:
    """Set the log append time, which applies to all records of the batch, and update the checksum."""
    header = parse_header(buffer, at)
    buffer[at + 21 : at + 23] = (header.attributes | LOG_APPEND_TIME).to_bytes(2, "big")
    _new_max_timestamp(buffer, at, header, now_ms)


def stamp_max_timestamp(buffer: bytearray, at: int, timestamp: int) -> None:
    """Set the header's maximum timestamp, which searches by time use, and update the checksum."""
    _new_max_timestamp(buffer, at, parse_header(buffer, at), timestamp)


def _new_max_timestamp(buffer: bytearray, at: int, header: Header, timestamp: int) -> None:
    buffer[at + _MAX_TIMESTAMP_AT : at + _MAX_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    buffer[at + _CRC_AT : at + _CHECKED_AT] = checksum(buffer, at, header).to_bytes(4, "big")


# -- building ------------------------------------------------------------------------------------------


def seal(fields: Iterable[int], body: Bytes) -> bytes:
    """Return a batch with this header and body, and with its checksum."""
    buffer = bytearray(HEADER.pack(*fields))
    buffer += body
    buffer[_CRC_AT:_CHECKED_AT] = int(google_crc32c.value(bytes(buffer[_CHECKED_AT:]))).to_bytes(4, "big")
    return bytes(buffer)
