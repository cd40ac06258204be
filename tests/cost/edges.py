"""Requests of clients with one field at an edge of its type: values that the wire allows, and a few that it does not.

This module makes the bytes itself, because `replica.wire.encoding` refuses most of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from attrs import frozen

from replica.wire.fields import Api, Field, Kind, fields_of
from replica.wire.varint import encode_unsigned

CLIENT_ID: Final = "edges"
_FIXED: Final = {
    Kind.BOOL: "?", Kind.I8: "b", Kind.I16: "h", Kind.I32: "i", Kind.I64: "q", Kind.F64: "d",
}  # fmt: skip
_BITS: Final = {Kind.I8: 8, Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
_HUGE: Final = 2**31 - 1


@frozen
class Raw:
    """Raw bytes of a request, with a name."""

    data: bytes
    name: str


class Case(NamedTuple):
    """A request with one field at an edge."""

    api: Api[Any, Any]
    version: int
    what: str
    frame: bytes

    def __str__(self) -> str:
        return f"{self.api.key.name} v{self.version}, {self.what}"


def cases(api: Api[Any, Any], version: int, body: Mapping[str, Any]) -> Iterator[Case]:
    """The request as it is, then once for each edge of each field that is new here, and cut off in its middle.

    A field is new in the version that brings it, in the one that writes it in another way, and in the last that has it.
    In those between, the same code reads it and acts on it.
    """
    whole = request(api, version, body)
    yield Case(api, version, "as it should be", whole)
    for path, field in _places(fields_of(api.request), version, body):
        if not _is_new(field, api, version):
            continue
        for edge in _edges(field, version, flexible=version >= api.flexible):
            name = f"{'.'.join(map(str, path))} = {edge.name if isinstance(edge, Raw) else repr(edge)[:40]}"
            yield Case(api, version, name, request(api, version, _with(body, path, edge)))
    yield Case(api, version, "cut off", _framed(whole[4 : 4 + (len(whole) - 4) // 2]))


def request(api: Api[Any, Any], version: int, body: Mapping[str, Any], correlation: int = 7) -> bytes:
    """The whole frame, with its length."""
    flexible = version >= api.flexible
    client = CLIENT_ID.encode()
    head = struct.pack(">hhih", api.key, version, correlation, len(client)) + client + (b"\0" if flexible else b"")
    return _framed(head + _struct(fields_of(api.request), version, flexible, body))


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


# -- which fields, and their edges ---------------------------------------------------------------------------


def _places(
    fields: tuple[Field, ...], version: int, body: Mapping[str, Any], path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Field]]:
    """Each field that the body has a place for; of a list of structs also those of its first element."""
    for field in fields:
        if not field.is_in(version):
            continue
        here = (*path, field.name)
        yield here, field
        value = body.get(field.name)
        if field.kind is Kind.STRUCT and value:
            inner, where = (value[0], (*here, 0)) if field.many else (value, here)
            yield from _places(field.fields, version, inner, where)


def _is_new(field: Field, api: Api[Any, Any], version: int) -> bool:
    return version in (max(field.since, api.first), min(field.until, api.last), api.flexible, field.null)


def _edges(field: Field, version: int, *, flexible: bool) -> Iterator[Any]:
    nullable = version >= field.null
    if field.many:
        yield []
        yield None if nullable else Raw(_length(-1, flexible, "i"), "null")
        yield Raw(_length(_HUGE, flexible, "i"), "2**31-1 elements announced")
        if field.kind is not Kind.STRUCT:
            yield from ([edge] for edge in _edges_of_one(field, nullable=False, flexible=flexible))
        return
    if field.kind is not Kind.STRUCT:
        yield from _edges_of_one(field, nullable=nullable, flexible=flexible)


def _edges_of_one(field: Field, *, nullable: bool, flexible: bool) -> Iterator[Any]:
    match field.kind:
        case Kind.BOOL:
            yield from (False, True, Raw(b"\xff", "a boolean of 255"))
        case Kind.F64:
            yield from (0.0, -1.0, 5e-324, 1.7e308, float("inf"), float("-inf"), float("nan"))
        case Kind.UUID:
            yield from (Raw(bytes(16), "no id"), Raw(b"\xff" * 16, "an id of ones"))
        case Kind.TEXT:
            yield from ("", "\0", "x/../y", "\U0010ffff", "7" * 400, "y" * 32_767)
            yield None if nullable else Raw(_length(-1, flexible, "h"), "null")
            yield Raw(_length(3, flexible, "h") + b"\xed\xa0\x80", "a lone surrogate")
            yield Raw(_length(2, flexible, "h") + b"\xff\xfe", "no UTF-8")
        case Kind.BYTES:
            yield from (b"", b"\0", b"\xff" * 64)
            yield None if nullable else Raw(_length(-1, flexible, "i"), "null")
        case kind:
            top = 1 << (_BITS[kind] - 1)
            yield from (-top, 1 - top, -2, -1, 0, 1, top - 2, top - 1)


def _with(body: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        return [_with(body[first], tuple(rest), value), *body[first + 1 :]]
    return {**body, first: _with(body.get(first), tuple(rest), value)}


# -- bytes ---------------------------------------------------------------------------------------------------


def _struct(fields: tuple[Field, ...], version: int, flexible: bool, body: Mapping[str, Any]) -> bytes:
    present = [field for field in fields if field.is_in(version)]
    placed = [_value(one, version, flexible, body.get(one.name, one.absent)) for one in present if one.tag is None]
    if not flexible:
        return b"".join(placed)
    tags = b""
    said = sorted((one.tag, one) for one in present if one.tag is not None and one.name in body)
    for tag, one in said:
        value = _value(one, version, flexible, body[one.name])
        tags += encode_unsigned(tag) + encode_unsigned(len(value)) + value
    return b"".join((*placed, encode_unsigned(len(said)), tags))


def _value(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    if isinstance(value, Raw):
        return value.data
    if field.many:
        if value is None:
            return _length(-1, flexible, "i")
        return _length(len(value), flexible, "i") + b"".join(_one(field, version, flexible, each) for each in value)
    return _one(field, version, flexible, value)


def _one(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    if isinstance(value, Raw):
        return value.data
    match field.kind:
        case Kind.STRUCT:
            return _struct(field.fields, version, flexible, value or {})
        case Kind.UUID:
            return bytes(16)
        case Kind.TEXT | Kind.BYTES as kind:
            if value is None:
                return _length(-1, flexible, "h" if kind is Kind.TEXT else "i")
            data: bytes = value.encode() if kind is Kind.TEXT else value
            return _length(len(data), flexible, "h" if kind is Kind.TEXT else "i") + data
        case kind:
            return struct.pack(f">{_FIXED[kind]}", value)


def _length(number: int, flexible: bool, code: str) -> bytes:
    return encode_unsigned(number + 1) if flexible else struct.pack(f">{code}", number)
