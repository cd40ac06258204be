"""Compilation of schemas to writers. A writer's fields depend only on the version, so they are resolved in advance."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct
from typing import Any, Final, TypeAlias

from replica.wire.decoding import UUID_BYTES
from replica.wire.fields import FIXED, Field, Kind, fields_of, in_runs

Out: TypeAlias = Callable[[bytes], None]
"""Accepts the next bytes of the message."""
Writer: TypeAlias = Callable[[Any, Out], None]

_NO_UUID: Final = bytes(UUID_BYTES)
_I16: Final = Struct(">h").pack
_I32: Final = Struct(">i").pack
_NO_TAGS: Final = b"\0"
_SHORT_MAX: Final = 0x7FFF
_SMALL: Final = tuple(bytes([number]) for number in range(128))


class Unwritable(ValueError):
    """A value that its schema does not allow, because of a bug in this program."""


def encoder(of: type[Any], version: int, *, flexible: bool) -> Writer:
    """Return the writer of a struct's instances."""
    present = [(place, one) for place, one in enumerate(fields_of(of)) if one.is_in(version)]
    steps = [
        _fixed([one for _, one in run]) if run[0][1].fixed else _named(run[0][1], version, flexible=flexible)
        for run in in_runs((place, one) for place, one in present if one.tag is None)
    ]
    if flexible:
        tagged = sorted((one.tag, one) for _, one in present if one.tag is not None)
        steps.append(_tags([(tag, one, _value_writer(one, version, flexible=True)) for tag, one in tagged]))

    def write(value: Any, out: Out) -> None:
        for step in steps:
            step(value, out)

    return write


def _fixed(run: list[Field]) -> Writer:
    pack = Struct(">" + "".join(FIXED[one.kind] for one in run)).pack
    names = [one.name for one in run]
    get = attrgetter(*names)
    if len(run) == 1:

        def step_of_one(value: Any, out: Out) -> None:
            number = get(value)
            try:
                out(pack(number))
            except struct.error as error:
                raise Unwritable(f"{names[0]} = {number!r}: {error}") from None

        return step_of_one

    def step(value: Any, out: Out) -> None:
        numbers = get(value)
        try:
            out(pack(*numbers))
        except struct.error as error:
            named = ", ".join(f"{name} = {number!r}" for name, number in zip(names, numbers, strict=True))
            raise Unwritable(f"{named}: {error}") from None

    return step


def _named(one: Field, version: int, *, flexible: bool) -> Writer:
    name, write = one.name, _value_writer(one, version, flexible=flexible)
    get = attrgetter(name)

    def step(value: Any, out: Out) -> None:
        try:
            write(get(value), out)
        except Unwritable as error:
            raise Unwritable(f"{name}: {error}") from None
        except (AttributeError, TypeError, UnicodeEncodeError, struct.error) as error:
            raise Unwritable(f"{name}: {error}") from error

    return step


def _tags(known: list[tuple[int, Field, Writer]]) -> Writer:
    """Write tagged fields, but neither those with default values nor structs that have only defaults."""
    places = [
        (tag, attrgetter(one.name), (one.absent, None if one.struct is None or one.many else one.struct()), write)
        for tag, one, write in known
    ]

    def step(value: Any, out: Out) -> None:
        tags: list[bytes] = []
        for tag, get, usual, write in places:
            given = get(value)
            if given in usual:
                continue
            pieces: list[bytes] = []
            write(given, pieces.append)
            body = b"".join(pieces)
            tags.append(uvarint(tag) + uvarint(len(body)) + body)
        out(uvarint(len(tags)) + b"".join(tags) if tags else _NO_TAGS)

    return step


# -- values --------------------------------------------------------------------------------------------


def uvarint(number: int) -> bytes:
    if number < 0x80:
        return _SMALL[number]
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


Length: TypeAlias = Callable[[int], bytes]
"""Encodes a length; -1 stands for null."""


def _compact_length(length: int) -> bytes:
    return uvarint(length + 1)


def _value_writer(one: Field, version: int, *, flexible: bool) -> Writer:
    nullable = version >= one.null
    if not one.many:
        return _single(one, version, flexible, nullable)
    length_of = _I32 if not flexible else _compact_length
    if one.kind in FIXED:
        return _numbers(FIXED[one.kind], nullable, length_of)
    return _array(_single(one, version, flexible, False), nullable, length_of)


def _single(one: Field, version: int, flexible: bool, nullable: bool) -> Writer:
    match one.kind:
        case Kind.TEXT:
            length = _compact_length if flexible else _I16
            return _text(length, nullable, one.clip)
        case Kind.BYTES:
            return _octets(_compact_length if flexible else _I32, nullable)
        case Kind.STRUCT:
            assert one.struct is not None
            return encoder(one.struct, version, flexible=flexible)
        case Kind.UUID:
            return _uuid
        case _:
            return _number(FIXED[one.kind])


def _number(code: str) -> Writer:
    pack = Struct(">" + code).pack

    def write(value: Any, out: Out) -> None:
        out(pack(value))

    return write


def _text(length_of: Length, nullable: bool, clip: int) -> Writer:
    def write(value: str | None, out: Out) -> None:
        if value is None:
            _null(nullable, length_of, out)
            return
        raw = value.encode()
        if clip and len(raw) > clip:
            raw = raw[:clip].decode(errors="ignore").encode()  # cut at a character boundary
        if len(raw) > _SHORT_MAX:
            raise Unwritable(f"the text has {len(raw)} bytes; the limit is {_SHORT_MAX}")
        out(length_of(len(raw)) + raw)

    return write


def _octets(length_of: Length, nullable: bool) -> Writer:
    def write(value: bytes | bytearray | memoryview | None, out: Out) -> None:
        if value is None:
            _null(nullable, length_of, out)
            return
        out(length_of(len(value)))
        out(value)  # type: ignore[arg-type]  # anything that join() takes

    return write


def _uuid(value: str | None, out: Out) -> None:
    if value is None:
        out(_NO_UUID)
        return
    try:
        raw = urlsafe_b64decode(f"{value}==")
    except ValueError as error:
        raise Unwritable(f"{value!r} is not a valid id: {error}") from None
    if len(raw) != UUID_BYTES:
        raise Unwritable(f"{value!r} is not a valid id: it has {len(raw)} bytes, not {UUID_BYTES}")
    out(raw)


def _array(element: Writer, nullable: bool, length_of: Length) -> Writer:
    def write(value: Sequence[Any] | None, out: Out) -> None:
        if value is None:
            _null(nullable, length_of, out)
            return
        out(length_of(len(value)))
        for one in value:
            element(one, out)

    return write


def _numbers(code: str, nullable: bool, length_of: Length) -> Writer:
    def write(value: Sequence[Any] | None, out: Out) -> None:
        if value is None:
            _null(nullable, length_of, out)
            return
        out(length_of(len(value)) + struct.pack(f">{len(value)}{code}", *value))

    return write


def _null(nullable: bool, length_of: Length, out: Out) -> None:
    if not nullable:
        raise Unwritable("null in a field that is not nullable")
    out(length_of(-1))
