"""Varints in records: seven bits in each byte, lowest first. Signed numbers are zigzag-encoded."""

from __future__ import annotations

from replica.wire.compression import Bytes


def encode_unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(number: int) -> bytes:
    return encode_unsigned(number << 1 if number >= 0 else (-number << 1) - 1)


def size(number: int) -> int:
    folded = number << 1 if number >= 0 else (-number << 1) - 1
    return max(1, (folded.bit_length() + 6) // 7)


def decode_unsigned(data: Bytes, at: int, bits_max: int = 64) -> tuple[int, int]:
    """Return the number and the position after it. Raises `IndexError` if truncated, `ValueError` if too large."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> bits_max:
                raise ValueError(f"a varint has more than {bits_max} bits")
            return number, at
        shift += 7
        if shift >= 70:
            raise ValueError("a varint has more than ten bytes")


def decode(data: Bytes, at: int, bits_max: int = 64) -> tuple[int, int]:
    folded = data[at]
    if folded < 0x80:
        at += 1
    else:
        folded, at = decode_unsigned(data, at, bits_max)
    return (folded >> 1) ^ -(folded & 1), at
