"""The words that schemas are written in: what a message has, and in which versions.

    structs("brokers", (i32("node_id"), text("rack", since=1, null=0)))

since, until   the versions of the message that have the field at all
null           from which version on it may be null; never, when it is not said
tag            it stands among the tagged fields, under this number
default        what it is in a version that does not have it, and when nobody gave it a value
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from attrs import evolve, field, frozen

from replica.wire.api import ApiKey

ALWAYS: Final = 0
FOREVER: Final = 1_000
MESSAGE_BYTES_MAX: Final = 1_000


class Kind(Enum):
    BOOL = auto()
    I8 = auto()
    I16 = auto()
    I32 = auto()
    I64 = auto()
    F64 = auto()
    UUID = auto()
    TEXT = auto()
    BYTES = auto()
    STRUCT = auto()


class _Usual(Enum):
    """The default that the kind has."""

    USUAL = auto()


USUAL: Final = _Usual.USUAL
_ZERO: Final[dict[Kind, Any]] = {
    Kind.BOOL: False,
    Kind.I8: 0,
    Kind.I16: 0,
    Kind.I32: 0,
    Kind.I64: 0,
    Kind.F64: 0.0,
    Kind.UUID: None,
    Kind.TEXT: "",
    Kind.BYTES: b"",
    Kind.STRUCT: None,
}


@frozen
class Field:
    name: str
    kind: Kind
    since: int = field(default=ALWAYS, kw_only=True)
    until: int = field(default=FOREVER, kw_only=True)
    null: int = field(default=FOREVER, kw_only=True)
    tag: int | None = field(default=None, kw_only=True)
    default: Any = field(default=USUAL, kw_only=True)
    clip: int = field(default=0, kw_only=True)
    """A longer text is written with so many bytes; 0: it cannot be written."""
    many: bool = field(default=False, kw_only=True)
    fields: tuple[Field, ...] = field(default=(), kw_only=True)
    """Of a struct."""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def absent(self) -> Any:
        """What it is when nobody said. A list is a new one each time."""
        if self.default is not USUAL:
            return self.default
        if self.kind is Kind.TEXT and self.null == ALWAYS and not self.many:
            return None
        return [] if self.many else _ZERO[self.kind]


def boolean(name: str, **more: Any) -> Field:
    return Field(name, Kind.BOOL, **more)


def i8(name: str, **more: Any) -> Field:
    return Field(name, Kind.I8, **more)


def i16(name: str, **more: Any) -> Field:
    return Field(name, Kind.I16, **more)


def i32(name: str, **more: Any) -> Field:
    return Field(name, Kind.I32, **more)


def i64(name: str, **more: Any) -> Field:
    return Field(name, Kind.I64, **more)


def f64(name: str, **more: Any) -> Field:
    return Field(name, Kind.F64, **more)


def uuid(name: str, **more: Any) -> Field:
    """As a value it is `TopicId`s text of 22 characters, or None."""
    return Field(name, Kind.UUID, **more)


def text(name: str, **more: Any) -> Field:
    return Field(name, Kind.TEXT, **more)


def message(name: str, **more: Any) -> Field:
    """A text for people. It may quote a name of the request that is as long as a text can be, so it is cut off."""
    return Field(name, Kind.TEXT, clip=MESSAGE_BYTES_MAX, **more)


def octets(name: str, **more: Any) -> Field:
    return Field(name, Kind.BYTES, **more)


def struct(name: str, fields: tuple[Field, ...], **more: Any) -> Field:
    return Field(name, Kind.STRUCT, fields=fields, **more)


def structs(name: str, fields: tuple[Field, ...], **more: Any) -> Field:
    return Field(name, Kind.STRUCT, fields=fields, many=True, **more)


def many(one: Field) -> Field:
    """An array of what `one` is. What `one` says of null is about the array: its elements never are."""
    return evolve(one, many=True)


@frozen
class Api:
    """first, last     the versions that are spoken
    flexible        from which of them on everything is compact and may carry tagged fields
    """

    key: ApiKey
    first: int
    last: int
    flexible: int
    request: tuple[Field, ...]
    reply: tuple[Field, ...]

    def speaks(self, version: int) -> bool:
        return self.first <= version <= self.last
