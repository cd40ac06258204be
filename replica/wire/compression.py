"""The codecs of record batches. Decompression is limited, since a few bytes may expand to gigabytes.

Compression writes formats that all clients read: snappy in the Java client's blocks (xerial), lz4 as a frame of
independent blocks. Decompression accepts all formats that clients are known to send.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from mmap import mmap
from typing import Final, TypeAlias

import cramjam

from replica.core.errors import ErrorCode, KafkaError

Bytes: TypeAlias = bytes | bytearray | memoryview

INFLATED_BYTES_MAX: Final = 64 << 20
"""The default limit for the decompressed records of one produced batch (`zab.message.max.unpacked.bytes`). Kafka's
producers send at most a megabyte in one request by default (`max.request.size`).
"""
READ_BYTES_MAX: Final = 1 << 30
"""The limit for the decompressed records of a batch in the log. No setting allows more."""
_FEW: Final = 64
_MEMBER_BYTES: Final = 4 << 10
"""With a limit of `bytes_max` decompressed bytes, a gzip stream may have `bytes_max // _MEMBER_BYTES + _FEW` members:
even empty ones cost time."""
_BLOCK_BYTES: Final = 256
"""With a limit of `bytes_max` decompressed bytes, snappy data may have `bytes_max // _BLOCK_BYTES + _FEW` blocks."""
_INPUT_PIECE: Final = 64 << 10
"""The maximum number of bytes that are passed to zlib in one call: zlib copies the unused rest, which takes quadratic
time for many members."""


class Codec(IntEnum):
    """The codecs, with their numbers in bits 0 to 2 of a batch's attributes, and named as in `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        return "uncompressed" if self is Codec.NONE else self.name.lower()


_PIECE: Final = 1 << 20
"""The maximum size of a `bytearray` to decompress into, and of the output of one call of zlib."""
_XERIAL: Final = bytes.fromhex("82534e4150505900")
_XERIAL_HEADER: Final = _XERIAL + bytes.fromhex("0000000100000001")
_XERIAL_BLOCK: Final = 32 << 10

_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""The header of an lz4 frame: the magic, the flag for independent blocks, the maximum block size of 64 KiB, and the
checksum of these two settings."""
_LZ4_BLOCK: Final = 64 << 10
_LZ4_PLAIN: Final = 1 << 31
_NO_ROOM: Final = "failed to write whole buffer"


_CODECS: Final = tuple(Codec)


def codec_of(attributes: int) -> Codec:
    number = attributes & 7
    if number > Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"unknown codec {number}: use none, gzip, snappy, lz4 or zstd",
        )
    return _CODECS[number]


def deflate(codec: Codec, data: bytes) -> bytes:
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(data) + compressor.flush()
        case Codec.SNAPPY:
            blocks = [bytes(cramjam.snappy.compress_raw(block)) for block in _blocks(data, _XERIAL_BLOCK)]
            return _XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
        case Codec.LZ4:
            return _LZ4_HEADER + b"".join(map(_lz4_block, _blocks(data, _LZ4_BLOCK))) + bytes(4)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def inflate(codec: Codec, data: Bytes, bytes_max: int = INFLATED_BYTES_MAX) -> Bytes:
    """Decompress records. With `Codec.NONE`, return the data unchanged, whatever its size.

    Raises `KafkaError` INVALID_RECORD for malformed data. Raises MESSAGE_TOO_LARGE for records of more than
    `bytes_max` bytes, and for too many gzip members or snappy blocks.
    """
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _gunzip(data, bytes_max)
            case Codec.SNAPPY:
                return _unsnap(data, bytes_max)
            case Codec.LZ4:
                return _into(cramjam.lz4.decompress_into, codec, data, bytes_max)
            case Codec.ZSTD:
                return _into(cramjam.zstd.decompress_into, codec, data, bytes_max)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"malformed {codec.label} data in a batch: {error}") from error


def _blocks(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def _lz4_block(block: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
    if len(packed) >= len(block):
        return (len(block) | _LZ4_PLAIN).to_bytes(4, "little") + block
    return len(packed).to_bytes(4, "little") + packed


def _too_large(codec: Codec, bytes_max: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the records exceed {bytes_max} bytes after {codec.label} decompression: send smaller batches",
    )


def _too_many(parts: str) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"the compressed records have too many {parts} for their size: use larger {parts}"
    )


def _into(decompress_into: object, codec: Codec, data: Bytes, bytes_max: int) -> Bytes:
    """Decompress into a growing buffer, since frames need not declare their size.

    A buffer of more than `_PIECE` bytes is mapped memory, whose pages the system allocates only as they are written.
    Other threads run during the decompression.
    """
    assert callable(decompress_into)
    size = min(bytes_max, max(4096, 4 * len(data)))
    while size <= _PIECE:
        buffer = bytearray(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise
            if size == bytes_max:
                raise _too_large(codec, bytes_max) from None
            size = min(bytes_max, 4 * size)
            continue
        del buffer[written:]
        return buffer
    for size in sorted({min(bytes_max, INFLATED_BYTES_MAX), bytes_max}):
        with mmap(-1, size) as large:
            try:
                written = decompress_into(data, large)
            except cramjam.DecompressionError as error:
                if str(error) != _NO_ROOM:
                    raise
                continue
            return large[:written]
    raise _too_large(codec, bytes_max)


def _gunzip(data: Bytes, bytes_max: int) -> Bytes:
    """Decompress all members of a gzip stream, as Java does."""
    pieces: list[bytes] = []
    left, view, at = bytes_max, memoryview(data), 0
    members = bytes_max // _MEMBER_BYTES + _FEW
    while at < len(view):
        member = zlib.decompressobj(wbits=31)
        members -= 1
        while not member.eof:
            given = view[at : at + _INPUT_PIECE]
            piece = member.decompress(given, min(left + 1, _PIECE))
            at += len(given) - len(member.unused_data) - len(member.unconsumed_tail)
            left -= len(piece)
            if members < 0:
                raise _too_many("members of gzip")
            if left < 0:
                raise _too_large(Codec.GZIP, bytes_max)
            if not piece and not given and not member.eof:
                raise ValueError("the stream is truncated")
            pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unsnap(data: Bytes, bytes_max: int) -> Bytes:
    if bytes(data[:8]) != _XERIAL:
        return _raw_snappy(data, bytes_max, bytes_max)
    pieces: list[bytes] = []
    left, at = bytes_max, len(_XERIAL_HEADER)
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if at + 4 > len(data) or end > len(data):
            raise ValueError("a block is truncated")
        piece = _raw_snappy(data[at + 4 : end], left, bytes_max)
        left -= len(piece)
        pieces.append(piece)
        if len(pieces) > bytes_max // _BLOCK_BYTES + _FEW:
            raise _too_many("blocks of snappy")
        at = end
    return b"".join(pieces)


def _raw_snappy(block: Bytes, left: int, bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > left:
        raise _too_large(Codec.SNAPPY, bytes_max)
    return bytes(cramjam.snappy.decompress_raw(block))
