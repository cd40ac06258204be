"""Histories as lines of JSON: each line is one attrs record, and is read back by the types of its fields.

A line has the kind of its record and the fields that differ from their defaults. The reader refuses any other line, and
names its number and the wrong field.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs import field, frozen

INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""The integers that fit into the protocol and into the tables of campaigns."""
_DEPTH_MAX: Final = 2
"""The depth of records: the event, its request, and the parts of a multi. Parts have no parts."""


class HistoryError(ValueError):
    """The text is no history of this version, or contradicts itself. The message names the place."""


# -- to text -------------------------------------------------------------------------------------------


def to_json(record: Any) -> dict[str, object]:
    return {"kind": type(record).__name__, **_fields(record)}


def _fields(record: Any) -> dict[str, object]:
    """A field `kind` is written as `change`, because each line has a kind of its own."""
    held = {attribute: getattr(record, attribute.name) for attribute in attrs.fields(type(record))}
    return {
        "change" if attribute.name == "kind" else attribute.name: _plain(value)
        for attribute, value in held.items()
        if attribute.default is attrs.NOTHING or value != attribute.default
    }


def _plain(value: Any) -> object:
    if attrs.has(type(value)):
        return _fields(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")  # each byte is one character, and text stays readable
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


# -- from text -----------------------------------------------------------------------------------------


def parsed(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise HistoryError(f"line {number}, column {error.colno}: no JSON: {error.msg}") from error
    except RecursionError as error:
        raise HistoryError(f"line {number}: lists are nested too deeply for a history") from error
    except ValueError as error:  # a number of thousands of digits
        raise HistoryError(f"line {number}: {error}") from error
    if not isinstance(found, dict):
        raise HistoryError(f"line {number}: expected an object, not {type(found).__name__}")
    return found


@frozen
class Records:
    """Reads the records of one sort of history."""

    kinds: Mapping[str, type]
    choices: Mapping[type, Mapping[str, tuple[str, ...]]] = field(factory=dict)
    """The words that a field may have, the default first."""

    def from_json(self, data: Mapping[str, Any], where: str) -> Any:
        kind = self.kinds.get(str(data.get("kind")))
        if kind is None:
            raise HistoryError(f"{where}, kind: {data.get('kind')!r} is none of {', '.join(self.kinds)}")
        fields = {key: value for key, value in data.items() if key != "kind"}
        if "kind" in attrs.fields_dict(kind) and "change" in fields:
            fields["kind"] = fields.pop("change")
        return self._record(kind, fields, where, 0)

    def _record(self, cls: type, data: object, where: str, depth: int) -> Any:
        if not isinstance(data, dict):
            raise HistoryError(f"{where}: expected an object, not {type(data).__name__}")
        hints = typing.get_type_hints(cls)
        made = {}
        for attribute in attrs.fields(cls):
            name = attribute.name
            if name in data:
                made[name] = self._value(data[name], hints[name], f"{where}, {name}", depth)
            elif attribute.default is attrs.NOTHING:
                raise HistoryError(f"{where}, {name}: missing")
        for name in data:
            if name not in hints:
                raise HistoryError(f"{where}, {name}: unknown; {cls.__name__} has {', '.join(hints)}")
        for name, choices in self.choices.get(cls, {}).items():
            if made.get(name, choices[0]) not in choices:
                raise HistoryError(f"{where}, {name}: {made[name]!r} is none of {', '.join(map(repr, choices))}")
        return cls(**made)

    def _value(self, value: object, hint: Any, where: str, depth: int) -> Any:
        if isinstance(hint, types.UnionType):
            if value is None:
                return None
            hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        if attrs.has(hint):
            return self._record(hint, value, where, depth + 1)
        if hint is bytes:
            if type(value) is not str or any(ord(character) > 0xFF for character in value):
                raise HistoryError(f"{where}: expected bytes, written as characters up to \\u00ff")
            return value.encode("latin-1")
        if hint in (int, str):
            if type(value) is not hint:
                raise HistoryError(f"{where}: expected {hint.__name__}, not {value!r:.80}")
            if type(value) is int and value not in INTEGERS:
                raise HistoryError(f"{where}: expected a number of 64 bits, not {value}")
            return value
        if not isinstance(value, list):
            raise HistoryError(f"{where}: expected a list, not {value!r:.80}")
        if typing.get_origin(hint) is tuple:
            inner = typing.get_args(hint)[0]
            if attrs.has(inner) and depth >= _DEPTH_MAX:
                raise HistoryError(f"{where}: a part of a multi has no parts")
            return tuple(self._value(item, inner, f"{where}[{number}]", depth) for number, item in enumerate(value))
        fields = typing.get_type_hints(hint)  # of a named tuple
        if len(value) != len(fields):
            raise HistoryError(f"{where}: expected {', '.join(fields)}, not {value!r:.80}")
        items = zip(value, fields.items(), strict=True)
        return hint(*(self._value(item, of, f"{where}.{name}", depth) for item, (name, of) in items))
