"""Functions that declare the fields of the classes in `replica.wire.schemas`.

    @define
    class MetadataResponseBroker:
        node_id: int = i32()
        rack: str | None = text(since=1, null=0, default=None)

since, until   the versions of the message that have the field
null           the first version in which the field may be null; without it the field is never null
tag            the field's number, if it is a tagged field
default        the field's value if none is given, and in versions without the field
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import cache
from typing import Any, Final, Generic, TypeVar

import attrs
from attrs import NOTHING, Factory, frozen

from replica.wire.api import ApiKey

ALWAYS: Final = 0
FOREVER: Final = 1_000
MESSAGE_BYTES_MAX: Final = 1_000

Q = TypeVar("Q")
R = TypeVar("R")


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
_KEY: Final = "field"
FIXED: Final = {Kind.BOOL: "?", Kind.I8: "b", Kind.I16: "h", Kind.I32: "i", Kind.I64: "q", Kind.F64: "d"}
"""The `struct` module's format character for each numeric kind, and for booleans."""


@frozen
class Field:
    """The declaration of a struct's field.

    clip     longer texts are cut to this many bytes; 0: no text is cut
    many     True if the field is an array
    struct   the class of the struct, or of the array's elements
    """

    kind: Kind
    name: str = ""
    since: int = ALWAYS
    until: int = FOREVER
    null: int = FOREVER
    tag: int | None = None
    absent: Any = None
    clip: int = 0
    many: bool = False
    struct: type[Any] | None = None

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def fixed(self) -> bool:
        """True if the field is one number or boolean."""
        return self.kind in FIXED and not self.many

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the struct, or of the array's elements."""
        return () if self.struct is None else fields_of(self.struct)


def fields_of(struct: type[Any]) -> tuple[Field, ...]:
    """Return the fields that a schema class declares, in the order of the wire and of the constructor."""
    declared: Any = struct  # mypy takes no class for hashable
    return _fields_of(declared)


@cache
def _fields_of(struct: type[Any]) -> tuple[Field, ...]:
    return tuple(attrs.evolve(each.metadata[_KEY], name=each.name) for each in attrs.fields(struct))


def in_runs(placed: Iterable[tuple[int, Field]]) -> Iterator[list[tuple[int, Field]]]:
    """Group consecutive `fixed` fields, which are read and written together. Each other field is its own group."""
    run: list[tuple[int, Field]] = []
    for place, one in placed:
        if run and not (one.fixed and run[-1][1].fixed and place == run[-1][0] + 1):
            yield run
            run = []
        run.append((place, one))
    if run:
        yield run


def _declared(
    kind: Kind, *, many: bool = False, struct: type[Any] | None = None, default: Any = NOTHING, **more: Any
) -> Any:
    """Return a class attribute. Without `default`, the default is the kind's zero, such as 0 or ""; a new list for an
    array; None for a text that may be null in every version."""
    absent = default
    if default is NOTHING:
        optional = kind is Kind.TEXT and more.get("null") == ALWAYS and not many
        absent = [] if many else None if optional else _ZERO[kind]
    declared = Field(kind, many=many, struct=struct, absent=absent, **more)
    return attrs.field(default=Factory(list) if absent == [] else absent, metadata={_KEY: declared})


def boolean(**more: Any) -> Any:
    return _declared(Kind.BOOL, **more)


def i8(**more: Any) -> Any:
    return _declared(Kind.I8, **more)


def i16(**more: Any) -> Any:
    return _declared(Kind.I16, **more)


def i32(**more: Any) -> Any:
    return _declared(Kind.I32, **more)


def i64(**more: Any) -> Any:
    return _declared(Kind.I64, **more)


def f64(**more: Any) -> Any:
    return _declared(Kind.F64, **more)


def uuid(**more: Any) -> Any:
    """Declare an id. Its value is the 22 characters of a `TopicId`, or None."""
    return _declared(Kind.UUID, **more)


def text(**more: Any) -> Any:
    return _declared(Kind.TEXT, **more)


def message(**more: Any) -> Any:
    """Declare a text for people. It is cut to `MESSAGE_BYTES_MAX` bytes, since it may quote a very long name."""
    return _declared(Kind.TEXT, clip=MESSAGE_BYTES_MAX, **more)


def octets(**more: Any) -> Any:
    return _declared(Kind.BYTES, **more)


def struct(of: type[Any], **more: Any) -> Any:
    return _declared(Kind.STRUCT, struct=of, **more)


def structs(of: type[Any], **more: Any) -> Any:
    """Declare an array. `null` applies to the array: its elements are never null."""
    return _declared(Kind.STRUCT, struct=of, many=True, **more)


def i32s(**more: Any) -> Any:
    return _declared(Kind.I32, many=True, **more)


def i64s(**more: Any) -> Any:
    return _declared(Kind.I64, many=True, **more)


def texts(**more: Any) -> Any:
    return _declared(Kind.TEXT, many=True, **more)


@frozen
class Api(Generic[Q, R]):
    """A request and its response.

    first, last   the versions that this broker serves
    flexible      the first version with compact lengths and tagged fields
    """

    key: ApiKey
    request: type[Q]
    response: type[R]
    first: int
    last: int
    flexible: int

    def speaks(self, version: int) -> bool:
        return self.first <= version <= self.last
