"""Decompress ZooKeeper's snapshots while they are read.

The standard library has gzip. It lacks Snappy, and a short decoder is cheaper than a dependency for files that are read
once. We write neither format.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from zab.core.errors import DamagedError
from zab.wire.disk_files import Compression
from zab.wire.disk_source import Source

CHUNK_BYTES: Final = 1 << 16
SNAPPY_BLOCK_BYTES_MAX: Final = 1 << 24
"""The maximum size of a decompressed block. A larger one counts as damage: ZooKeeper's have at most 32 KiB."""

_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEAD_BYTES: Final = 16
_BLOCK: Final = Struct(">I")


def plain(chunks: Iterable[bytes], compression: Compression) -> Iterable[bytes]:
    if compression is Compression.GZIP:
        return gunzip(chunks)
    return unsnappy(chunks) if compression is Compression.SNAPPY else chunks


def gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress gzip in chunks of at most `CHUNK_BYTES`. Raise `DamagedError` at damage, but not for a missing end."""
    stream = zlib.decompressobj(wbits=31)
    try:
        for chunk in chunks:
            while chunk:
                piece = stream.decompress(chunk, CHUNK_BYTES)
                if piece:
                    yield piece
                if stream.eof:
                    # Another member may follow: files can be concatenated.
                    chunk, stream = stream.unused_data, zlib.decompressobj(wbits=31)
                else:
                    chunk = stream.unconsumed_tail
    except zlib.error as error:
        raise DamagedError(f"the gzip stream is damaged: {error}") from error
    # A truncated stream needs no error here: the reader of the snapshot reports the missing end.


def unsnappy(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress the stream of Java's SnappyOutputStream: a header, then blocks, each with its length in front."""
    source = Source(chunks)
    head = source.take(_SNAPPY_HEAD_BYTES)
    if len(head) < _SNAPPY_HEAD_BYTES or not head.startswith(_SNAPPY_MAGIC):
        raise DamagedError("not a Snappy stream")
    while length := source.take(_BLOCK.size):
        if length == _SNAPPY_MAGIC[: _BLOCK.size]:  # the header of another stream: files can be concatenated
            source.take(_SNAPPY_HEAD_BYTES - _BLOCK.size)
            continue
        if len(length) < _BLOCK.size:
            raise DamagedError(f"at byte {source.offset}: the Snappy stream is cut short")
        (size,) = _BLOCK.unpack(length)
        block = source.take(size)
        if len(block) < size:
            raise DamagedError(f"at byte {source.offset}: the Snappy stream is cut short")
        yield unsnappy_block(block)


def unsnappy_block(block: bytes) -> bytes:
    """Decompress a Snappy block: the size of the result, then literals and copies of earlier output.

    The low two bits of a tag are the kind: a literal, or a copy with an offset of 11, 16 or 32 bits.
    """
    size, at = _varint(block)
    if size > SNAPPY_BLOCK_BYTES_MAX:
        raise DamagedError(f"a Snappy block of {size} bytes; at most {SNAPPY_BLOCK_BYTES_MAX} are allowed")
    out = bytearray()
    try:
        while at < len(block):
            tag = block[at]
            at += 1
            length, kind = tag >> 2, tag & 3
            if kind == 0:
                if length >= 60:
                    extra = length - 59
                    length = _little_endian(block, at, extra)
                    at += extra
                out += block[at : at + length + 1]
                at += length + 1
                if at > len(block):
                    raise DamagedError("a literal reaches beyond the end of its Snappy block")
                continue
            if kind == 1:
                length, distance = 4 + (length & 7), (tag >> 5) << 8 | block[at]
                at += 1
            else:
                extra = 2 if kind == 2 else 4
                length, distance = length + 1, _little_endian(block, at, extra)
                at += extra
            if not 0 < distance <= len(out):
                raise DamagedError("a copy refers to bytes before the start of its Snappy block")
            start = len(out) - distance
            run = out[start : start + length]
            # A copy that is longer than its distance repeats the run.
            out += (run * (length // len(run) + 1))[:length]
            if len(out) > size:
                break
    except IndexError:
        raise DamagedError("a Snappy block is cut short") from None
    if len(out) != size:
        raise DamagedError(f"a Snappy block decompresses to {len(out)} bytes, not {size}")
    return bytes(out)


def _little_endian(block: bytes, at: int, count: int) -> int:
    if at + count > len(block):
        raise IndexError(at)
    return int.from_bytes(block[at : at + count], "little")


def _varint(block: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value, at + 1
    raise DamagedError("a Snappy block has no valid size")
