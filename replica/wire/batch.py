"""Record batches, magic 2: what a partition holds, byte for byte as it travels.

A batch is a header of 61 bytes, and records that are compressed together. A broker numbers and stamps it in place: its
base offset and its leader epoch stand before what the checksum covers. Everything here looks at
bytes where they lie.
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
"""Base offset, and how many bytes follow it. All that is needed to step over a batch."""

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
    """The fields in the order of the bytes: a named tuple, because it is made for every batch that is looked at."""

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
        """From when on tombstones in this batch may go; the cleaner has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


# -- looking -------------------------------------------------------------------------------------------


def parse_header(data: Bytes, at: int = 0) -> Header:
    """Of a batch of which at least the header is there. Nothing is checked."""
    return Header._make(HEADER.unpack_from(data, at))


def check(data: Bytes, at: int = 0) -> Header:
    """The header of the batch there, which is whole and unharmed; else `KafkaError` CORRUPT_MESSAGE."""
    left = len(data) - at
    if left < HEADER_BYTES:
        raise corrupt(f"{left} bytes where a batch of at least {HEADER_BYTES} should be")
    header = parse_header(data, at)
    if header.magic != MAGIC:
        raise corrupt(f"magic {header.magic} where a batch of magic {MAGIC} should be")
    size = header.length + PREFIX.size
    if size < HEADER_BYTES or size > left:
        raise corrupt(f"a batch of {size} bytes where {left} are left")
    if header.last_delta < 0 or header.base_offset < 0 or header.record_count < 0:
        raise corrupt(
            f"a batch from offset {header.base_offset} on, {header.last_delta} behind it, {header.record_count} records"
        )
    found = checksum(data, at, header)
    if found != header.crc:
        raise corrupt(
            f"the batch at offset {header.base_offset} has the checksum {header.crc:08x}, and says {found:08x}"
        )
    return header


def checksum(data: Bytes, at: int, header: Header) -> int:
    """As it should be. The library takes no views, so this is one copy of the batch."""
    return int(google_crc32c.value(bytes(data[at + _CHECKED_AT : at + header.length + PREFIX.size])))


def walk(data: Bytes, at: int = 0) -> Iterator[tuple[int, Header]]:
    """Where the batches begin that lie here back to back, and their headers. One that is cut off is not told.

    `KafkaError` CORRUPT_MESSAGE where the next one cannot be a batch: what follows cannot be found any more.
    """
    end = len(data)
    while end - at >= HEADER_BYTES:
        header = parse_header(data, at)
        size = header.length + PREFIX.size
        if size < HEADER_BYTES or header.magic != MAGIC:
            raise corrupt(f"no batch at byte {at}: size {size}, magic {header.magic}")
        if size > end - at:
            return
        yield at, header
        at += size


def corrupt(text: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, text)


# -- stamping ------------------------------------------------------------------------------------------


def stamp(buffer: bytearray, at: int, base_offset: int, leader_epoch: int) -> None:
    """Number a batch that lies there. Its checksum does not cover this."""
    _STAMP.pack_into(buffer, at, base_offset, int.from_bytes(buffer[at + 8 : at + 12], "big"), leader_epoch, MAGIC)


def stamp_append_time(buffer: bytearray, at: int, now_ms: int) -> None:
    """The log's own time for all of its records. The checksum is made anew."""
    header = parse_header(buffer, at)
    buffer[at + 21 : at + 23] = (header.attributes | LOG_APPEND_TIME).to_bytes(2, "big")
    _new_max_timestamp(buffer, at, header, now_ms)


def stamp_max_timestamp(buffer: bytearray, at: int, timestamp: int) -> None:
    """What the header says and the records do not is put right: searches by time rely on it."""
    _new_max_timestamp(buffer, at, parse_header(buffer, at), timestamp)


def _new_max_timestamp(buffer: bytearray, at: int, header: Header, timestamp: int) -> None:
    buffer[at + _MAX_TIMESTAMP_AT : at + _MAX_TIMESTAMP_AT + 8] = timestamp.to_bytes(8, "big", signed=True)
    buffer[at + _CRC_AT : at + _CHECKED_AT] = checksum(buffer, at, header).to_bytes(4, "big")


# -- sealing ------------------------------------------------------------------------------------------


def seal(fields: Iterable[int], body: Bytes) -> bytes:
    """The header with the right checksum, and the body behind it."""
    buffer = bytearray(HEADER.pack(*fields))
    buffer += body
    buffer[_CRC_AT:_CHECKED_AT] = int(google_crc32c.value(bytes(buffer[_CHECKED_AT:]))).to_bytes(4, "big")
    return bytes(buffer)
