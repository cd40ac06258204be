"""Keys of object graphs. Two graphs with equal keys behave in the same way.

Server ids, times and tickets are integers in the product. The exploration passes in subclasses of `int` instead, which
the product hands on unchanged, so a key can treat them by their meaning: ids can be renamed, times are relative to the
server's clock, and tickets are relative to the last ticket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final, TypeAlias

from zab.core.ensemble import Ensemble

Key: TypeAlias = Any
"""Nested tuples and frozensets of plain values and `Sid`."""


class Sid(int):
    """A server id, as a type of its own."""

    __slots__ = ()


class Moment(int):
    """A time. A sum or a difference with a duration is a time, too."""

    __slots__ = ()

    def __add__(self, other: int) -> Moment:
        return Moment(int(self) + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        difference = int(self) - int(other)
        return difference if isinstance(other, Moment) else Moment(difference)


class Serial(int):
    """A ticket of a write."""

    __slots__ = ()

    def __add__(self, other: int) -> Serial:
        return Serial(int(self) + other)


PLAIN: Final = frozenset({int, str, bytes, bool, type(None), float, Sid})
_CODE: Final = (type, FunctionType, MethodType, BuiltinFunctionType)
_MAPS: Final = (dict, MappingProxyType)
_SETS: Final = (set, frozenset)
_fields: dict[type, tuple[str, ...] | None] = {}
_frozen: dict[type, bool] = {}


class Walk:
    """One walk through a graph.

    `left_out` names attributes, by the name of their class, that do not influence what the graph does next; `opaque`
    names classes whose objects are all equal for it.
    """

    def __init__(
        self,
        left_out: Mapping[str, frozenset[str]],
        opaque: frozenset[str] = frozenset(),
        now: int = 0,
        ticket: int = 0,
    ) -> None:
        self._left_out = left_out
        self._opaque = opaque
        self._now = int(now)
        self._ticket = int(ticket)
        self._seen: dict[int, str] = {}
        """Mutable objects that the walk has entered, with the names under which it found them."""

    def key(self, value: Any, name: str = "") -> Key:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is Moment:
            return "time", int(value) - self._now
        if kind is Serial:
            return "ticket", int(value) - self._ticket
        if isinstance(value, tuple):
            return tuple([self.key(each, name) for each in value])
        if isinstance(value, Enum):
            return value.value
        if kind is Ensemble:
            return "members", value.version
        if isinstance(value, _CODE):
            return value.__qualname__
        if kind.__name__ in self._opaque:
            return kind.__name__
        if not _is_frozen(kind):
            if id(value) in self._seen:
                return "again", self._seen[id(value)]
            self._seen[id(value)] = name
        return self._contents(value, kind, name)

    def _contents(self, value: Any, kind: type, name: str) -> Key:
        if kind is list or kind is deque:
            if value and all(type(each) is Sid for each in value):
                return frozenset(value)  # lists of servers are used as sets
            return tuple([self.key(each, name) for each in value])
        if kind in _MAPS:
            # The order of a dict decides only the order of messages to different servers, which are independent.
            return frozenset([(self.key(each, name), self.key(of, f"{name}.{each}")) for each, of in value.items()])
        if kind in _SETS:
            return frozenset([self.key(each, name) for each in value])
        left_out = self._left_out.get(kind.__name__, frozenset())
        fields = _fields_of(kind)
        if fields is None:
            fields = tuple(sorted(vars(value)))
        return kind.__name__, *[
            self.key(getattr(value, field), f"{name}.{field}") for field in fields if field not in left_out
        ]


def _is_frozen(kind: type) -> bool:
    found = _frozen.get(kind)
    if found is None:
        found = _frozen[kind] = kind.__setattr__.__name__ == "_frozen_setattrs"
    return found


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of the attributes of a class with slots, or None for a class with a `__dict__`."""
    if kind not in _fields:
        attributes = getattr(kind, "__attrs_attrs__", None)
        if attributes is not None:
            _fields[kind] = tuple(attribute.name for attribute in attributes)
        elif hasattr(kind, "__dict__") and "__dict__" in dir(kind):
            _fields[kind] = None
        else:
            _fields[kind] = tuple(name for part in kind.__mro__ for name in getattr(part, "__slots__", ()))
    return _fields[kind]


def renamed(key: Key, ids: Mapping[int, int]) -> Key:
    """Return the key with other server ids."""
    kind = type(key)
    if kind is Sid:
        return ids[key]
    if kind is tuple:
        return tuple([renamed(each, ids) for each in key])
    if kind is frozenset:
        return frozenset([renamed(each, ids) for each in key])
    return key
