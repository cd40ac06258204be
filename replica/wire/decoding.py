"""Compilation of schemas to readers. A reader is a closure for one version of a message. The fields of that version are
resolved in advance.

A reader takes bytes and a position, and returns a value and the position after it. Every length and count is checked
against the remaining bytes, so a decoded message is no larger than the received bytes, apart from the overhead of
Python objects.
"""

from __future__ import annotations

import struct
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias

from attrs import define

from replica.core.errors import WireError
from replica.wire.fields import FIXED, Field, Kind, fields_of, in_runs

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Step: TypeAlias = Callable[[list[Any], bytes, int], int]

_I16: Final = Struct(">h").unpack_from
_I32: Final = Struct(">i").unpack_from
_UVARINT_BYTES_MAX: Final = 5
UUID_BYTES: Final = 16
_NO_UUID: Final = bytes(UUID_BYTES)
BROKEN: Final = (WireError, struct.error, IndexError, UnicodeDecodeError)
"""The exceptions that readers raise for truncated or malformed bytes."""


@define
class Elements:
    """A limit for all list elements and tagged fields of one message: each takes few bytes but some work."""

    max: int
    left: int = 0

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise WireError(f"more than {self.max} list elements and tagged fields")

    def bounds(self, read: Reader) -> Reader:
        def bounded(data: bytes, at: int) -> tuple[Any, int]:
            self.left = self.max
            return read(data, at)

        return bounded


_NO_BOUND: Final = Elements(sys.maxsize, sys.maxsize)


def decoder(struct: type[Any], version: int, *, flexible: bool, elements: Elements = _NO_BOUND) -> Reader:
    """Return the reader of a struct. Fields that this version lacks get their defaults."""
    fields = fields_of(struct)
    present = [(place, one) for place, one in enumerate(fields) if one.is_in(version)]
    placed = [(place, one) for place, one in present if one.tag is None]
    tagged = {one.tag: (place, one) for place, one in present if one.tag is not None}
    absent = [one.absent for one in fields]
    lists = [place for place, one in enumerate(fields) if isinstance(one.absent, list) and (place, one) not in placed]
    steps = [
        _fixed(run)
        if run[0][1].fixed
        else _placed(run[0][0], value_reader(run[0][1], version, elements, flexible=flexible))
        for run in in_runs(placed)
    ]
    if flexible:
        known: dict[int | None, tuple[int, Reader]] = {
            tag: (place, value_reader(one, version, elements, flexible=True)) for tag, (place, one) in tagged.items()
        }
        steps.append(_tags(known, elements))

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = absent.copy()
        for place in lists:
            values[place] = []
        for step in steps:
            at = step(values, data, at)
        return struct(*values), at

    return read


def value_reader(one: Field, version: int, elements: Elements, *, flexible: bool) -> Reader:
    nullable = version >= one.null
    if one.many:
        if one.kind in FIXED:
            return _numbers(FIXED[one.kind], nullable, _count(flexible), elements)
        element = _single(one, version, flexible, False, elements)
        return _array(element, least_bytes(one, version), nullable, _count(flexible), elements)
    return _single(one, version, flexible, nullable, elements)


def least_bytes(one: Field, version: int) -> int:
    """Return a lower bound of an element's size in bytes, by which counts are checked against the remaining bytes."""
    if one.kind in FIXED:
        return struct.calcsize(">" + FIXED[one.kind])
    if one.kind is Kind.UUID:
        return UUID_BYTES
    if one.kind is Kind.STRUCT:
        inner = [field for field in one.fields if field.is_in(version) and field.tag is None]
        return max(1, sum(1 if field.many else least_bytes(field, version) for field in inner))
    return 1


# -- consecutive fields ------------------------------------------------------------------------------------


def _fixed(run: list[tuple[int, Field]]) -> Step:
    layout = Struct(">" + "".join(FIXED[one.kind] for _, one in run))
    first, size, unpack = run[0][0], layout.size, layout.unpack_from
    if len(run) == 1:

        def step_of_one(values: list[Any], data: bytes, at: int) -> int:
            (values[first],) = unpack(data, at)
            return at + size

        return step_of_one
    places = slice(first, first + len(run))

    def step(values: list[Any], data: bytes, at: int) -> int:
        values[places] = unpack(data, at)
        return at + size

    return step


def _placed(place: int, read: Reader) -> Step:
    def step(values: list[Any], data: bytes, at: int) -> int:
        values[place], at = read(data, at)
        return at

    return step


def _tags(known: dict[int | None, tuple[int, Reader]], elements: Elements) -> Step:
    """Read tagged fields, whose tags ascend. Unknown tags are skipped, since a newer peer may send them."""

    def step(values: list[Any], data: bytes, at: int) -> int:
        if data[at] == 0:
            return at + 1
        count, at = uvarint(data, at)
        elements.take(count)
        last = -1
        for _ in range(count):
            tag, after = uvarint(data, at)
            if tag <= last:
                raise WireError(f"at byte {at}: tag {tag} comes after tag {last}, but tags ascend")
            size, at = uvarint(data, after)
            stop = at + size
            if stop > len(data):
                raise WireError(f"at byte {at}: tag {tag} has {size} bytes, but {len(data) - at} are left")
            if tag in known:
                place, read = known[tag]
                values[place], end = read(data, at)
                if end != stop:
                    raise WireError(f"at byte {at}: tag {tag} has {size} bytes, but its value takes {end - at}")
            last, at = tag, stop
        return at

    return step


# -- values --------------------------------------------------------------------------------------------


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, at + _UVARINT_BYTES_MAX):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise WireError(f"at byte {at}: a varint has more than {_UVARINT_BYTES_MAX} bytes")


Length: TypeAlias = Callable[[bytes, int], tuple[int, int]]


def _compact_length(data: bytes, at: int) -> tuple[int, int]:
    value, at = uvarint(data, at)
    return value - 1, at


def _short_length(data: bytes, at: int) -> tuple[int, int]:
    return _I16(data, at)[0], at + 2


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    return _I32(data, at)[0], at + 4


def _count(flexible: bool) -> Length:
    return _compact_length if flexible else _long_length


def _single(one: Field, version: int, flexible: bool, nullable: bool, elements: Elements) -> Reader:
    match one.kind:
        case Kind.TEXT:
            return _text(_compact_length if flexible else _short_length, nullable)
        case Kind.BYTES:
            return _octets(_compact_length if flexible else _long_length, nullable)
        case Kind.STRUCT:
            assert one.struct is not None
            return decoder(one.struct, version, flexible=flexible, elements=elements)
        case Kind.UUID:
            return _uuid
        case _:
            return _number(FIXED[one.kind])


def _number(code: str) -> Reader:
    layout = Struct(">" + code)
    size, unpack = layout.size, layout.unpack_from

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return read


def _text(length_of: Length, nullable: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[str | None, int]:
        length, start = length_of(data, at)
        stop = start + length
        if length < 0:
            return _null(length, nullable, start)
        if stop > len(data):
            raise _too_short(start, length, data)
        return data[start:stop].decode(), stop

    return read


def _octets(length_of: Length, nullable: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes | None, int]:
        length, start = length_of(data, at)
        stop = start + length
        if length < 0:
            return _null(length, nullable, start)
        if stop > len(data):
            raise _too_short(start, length, data)
        return data[start:stop], stop

    return read


def _uuid(data: bytes, at: int) -> tuple[str | None, int]:
    stop = at + UUID_BYTES
    raw = data[at:stop]
    if len(raw) < UUID_BYTES:
        raise _too_short(at, UUID_BYTES, data)
    return None if raw == _NO_UUID else urlsafe_b64encode(raw)[:22].decode(), stop


def _array(element: Reader, element_bytes_min: int, nullable: bool, count_of: Length, elements: Elements) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any] | None, int]:
        count, start = count_of(data, at)
        if count < 0:
            return _null(count, nullable, start)
        if count * element_bytes_min > len(data) - start:
            raise WireError(f"at byte {at}: {count} elements declared, but only {len(data) - start} bytes are left")
        elements.take(count)
        items, at = [], start
        for _ in range(count):
            item, at = element(data, at)
            items.append(item)
        return items, at

    return read


def _numbers(code: str, nullable: bool, count_of: Length, elements: Elements) -> Reader:
    size = struct.calcsize(">" + code)

    def read(data: bytes, at: int) -> tuple[list[Any] | None, int]:
        count, start = count_of(data, at)
        if count < 0:
            return _null(count, nullable, start)
        if count * size > len(data) - start:
            raise WireError(f"at byte {at}: {count} elements declared, but only {len(data) - start} bytes are left")
        elements.take(count)
        return list(struct.unpack_from(f">{count}{code}", data, start)), start + count * size

    return read


def _null(length: int, nullable: bool, at: int) -> tuple[None, int]:
    if length != -1:
        raise WireError(f"before byte {at}: invalid length {length}")
    if not nullable:
        raise WireError(f"before byte {at}: null in a field that is not nullable")
    return None, at


def _too_short(at: int, wanted: int, data: bytes) -> WireError:
    return WireError(f"at byte {at}: {wanted} bytes declared, but {max(0, len(data) - at)} are left")
