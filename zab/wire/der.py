"""The little of DER that certificates and Java's key stores need: one value after the other, each with its tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from zab.core.errors import WireError

INTEGER: Final = 0x02
OCTETS: Final = 0x04
OID: Final = 0x06
UTC_TIME: Final = 0x17
TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31

ARC_BITS_MAX: Final = 128
"""A UUID, the longest number that identifiers have, fits. Python writes no numbers of more than 4,300 digits."""


@frozen
class Value:
    """`whole` is the value with its tag and its length."""

    tag: int
    content: bytes
    whole: bytes

    def parts(self) -> Iterator[Value]:
        """What it is made of, if it is made of values."""
        at = 0
        while at < len(self.content):
            part = _at(self.content, at)
            at += len(part.whole)
            yield part


def _at(data: bytes, start: int) -> Value:
    at = start + 2
    if at > len(data):
        raise WireError("a value is cut off")
    tag, length = data[start], data[start + 1]
    if tag & 0x1F == 0x1F:
        raise WireError("a tag of more than one byte")
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or at + count > len(data):
            raise WireError("a length that is none")
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    stop = at + length
    if stop > len(data):
        raise WireError("a value is cut off")
    return Value(tag, data[at:stop], data[start:stop])


def parse(data: bytes) -> Value:
    """The one value that `data` is."""
    value = _at(data, 0)
    if len(value.whole) != len(data):
        raise WireError(f"{len(data) - len(value.whole)} bytes behind a value")
    return value


def expect(value: Value, tag: int) -> Value:
    if value.tag != tag:
        raise WireError(f"a value of tag {value.tag:#x} where {tag:#x} should be")
    return value


def dotted(content: bytes) -> str:
    """An object identifier, as one writes it."""
    arcs: list[int] = []
    arc = 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if arc >> ARC_BITS_MAX:
            raise WireError(f"an object identifier with a number of more than {ARC_BITS_MAX} bits")
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs or content[-1] & 0x80:
        raise WireError("an object identifier is cut off")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - first * 40, *arcs[1:])))
