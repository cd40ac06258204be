"""Certificates with any subject, put together byte by byte: no library signs some of these names."""

from __future__ import annotations

from typing import Final

COMMON_NAME: Final = b"\x55\x04\x03"
_ECDSA_WITH_SHA256: Final = bytes.fromhex("300a06082a8648ce3d040302")
_PUBLIC_KEY: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + b"\x04" + bytes(64)


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def name(*attributes: tuple[bytes, int, bytes]) -> bytes:
    """A name with each attribute (type, tag, value) in a set of its own."""
    return der(0x30, *[der(0x31, der(0x30, der(6, kind), der(tag, raw))) for kind, tag, raw in attributes])


def certificate(subject: bytes) -> bytes:
    validity = der(0x30, der(0x17, b"260101000000Z"), der(0x17, b"360101000000Z"))
    version, serial, issuer = der(0xA0, der(2, b"\2")), der(2, b"\1"), der(0x30)
    signed = der(0x30, version, serial, _ECDSA_WITH_SHA256, issuer, validity, subject, _PUBLIC_KEY)
    return der(0x30, signed, _ECDSA_WITH_SHA256, der(3, b"\0" + der(0x30, serial, serial)))
