"""A script as JSON. The reader refuses other input, and names the place of the mistake."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

import attrs

from harness.script.checks import ScriptError, Senseless, check, fields
from harness.script.faults import FAULTS, Fault
from harness.script.nodes import NODE_FAULTS
from harness.script.script import OPS, Script
from harness.script.workload import Op

CHANGES: Final[dict[int, str]] = {
    1: "the first",
    2: "clocks, disks that go back or lie, shapes of partitions, restarts, mixed settings; two more moments",
}
"""The changes of the meaning of a script, by version."""
VERSION: Final = max(CHANGES)
LATER: Final = ("groups", "weights", "constants", "nodes")
"""Fields without which a script keeps the form that it had before they existed."""

# -- to JSON ---------------------------------------------------------------------------------------------


def to_json(script: Script) -> dict[str, object]:
    made: dict[str, object] = {"version": VERSION}
    for name, value in fields(script):
        if value or name not in LATER:
            made[name] = list(map(_plain, value)) if name in ("constants", "faults", "ops") else _plain(value)
    return made


def _plain(value: Any) -> Any:
    if not attrs.has(type(value)):
        return value
    made: dict[str, Any] = {"kind": type(value).__name__} if isinstance(value, Fault | Op) else {}
    for name, part in fields(value):
        made[name] = list(map(_plain, part)) if name == "steps" and part else _plain(part)
    return made


def dumps(script: Script) -> str:
    """Write a line for each fault and each operation, so that scripts can be compared line by line."""
    lines = []
    for name, value in to_json(script).items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f' "{name}": [\n  {items}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


# -- from JSON -------------------------------------------------------------------------------------------

_TOO_MANY_DIGITS: Final = re.compile(r"\d{1000,}")
_SOMETHING: Final = re.compile(r"\S")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")


def loads(text: str) -> Script:
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ScriptError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from error
    except ScriptError:
        raise
    except ValueError as error:
        digits = _TOO_MANY_DIGITS.search(text)
        place = _line_and_column(text, digits.start() if digits is not None else 0)
        raise ScriptError(f"{place}: the number is too large") from error
    try:
        return from_json(data)
    except Senseless as error:
        raise ScriptError(f"{_line_and_column(text, position(text, error.where))}: {error}") from error


def position(text: str, where: str) -> int:
    """Return the position in a JSON text of a place like `script.faults[0].server`, or of the part that lacks it."""
    scan = json.JSONDecoder().raw_decode

    def space(at: int) -> int:
        return len(text) if (found := _SOMETHING.search(text, at)) is None else found.start()

    def items(at: int) -> Iterator[tuple[object, int]]:
        """Yield keys or numbers, and the positions of their values."""
        is_object, number, at = text[at] == "{", 0, space(at + 1)
        while text[at] not in "}]":
            key: object = number
            if is_object:
                key, at = scan(text, at)
                at = space(space(at) + 1)  # after the colon
            yield key, at
            at, number = space(scan(text, at)[1]), number + 1
            at = space(at + 1) if text[at] == "," else at

    found = space(0)
    for name, number in _STEP.findall(where):
        inside = dict(items(found)) if text[found] in "{[" else {}
        step = name or int(number)
        if step not in inside:
            break
        found = inside[step]
    return found


def _line_and_column(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in pairs:
        if name in made:
            raise ScriptError(f"one object has {name!r} twice: {made[name]!r:.60} and {value!r:.60}")
        made[name] = value
    return made


def from_json(data: object) -> Script:
    given = _object(data, "script")
    version = given.pop("version", None)
    if version != VERSION:
        raise Senseless("script.version", _refusal(version))
    script: Script = _record(Script, given, "script")
    check(script)
    return script


def _refusal(version: object) -> str:
    if type(version) is int and version in CHANGES:
        later = "; ".join(f"{number}: {change}" for number, change in CHANGES.items() if number > version)
        return f"expected {VERSION}, not {version}. Changes since then: {later}. If none matters here, write {VERSION}"
    return f"expected {VERSION}, not {version!r}"


def _object(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Senseless(where, f"expected an object, not {type(data).__name__}")
    return dict(data)


def _record(cls: type, data: object, where: str) -> Any:
    given = _object(data, where)
    kinds: dict[type, tuple[type, ...]] = {Fault: (*FAULTS, *NODE_FAULTS), Op: OPS}
    if cls in kinds:
        by_name = {kind.__name__: kind for kind in kinds[cls]}
        kind = given.pop("kind", None)
        if not isinstance(kind, str) or kind not in by_name:
            raise Senseless(f"{where}.kind", f"{kind!r} is none of {', '.join(by_name)}")
        cls = by_name[kind]
    hints = typing.get_type_hints(cls)
    made = {name: _value(given[name], hints[name], f"{where}.{name}") for name in hints if name in given}
    for attribute in attrs.fields(cls):
        if attribute.name not in given and attribute.default is attrs.NOTHING:
            raise Senseless(f"{where}.{attribute.name}", "missing")
    for name in given:
        if name not in hints:
            raise Senseless(f"{where}.{name}", f"unknown; {cls.__name__} has {', '.join(hints)}")
    return cls(**made)


def _value(value: object, hint: Any, where: str) -> Any:
    if attrs.has(hint):
        return _record(hint, value, where)
    if hint in (int, str, bool):
        if type(value) is not hint:
            raise Senseless(where, f"expected {hint.__name__}, not {value!r}")
        return value
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise Senseless(where, f"expected a list, not {value!r}")
        inner = typing.get_args(hint)[0]
        return tuple(_value(item, inner, f"{where}[{number}]") for number, item in enumerate(value))
    if isinstance(hint, types.UnionType):
        inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        return None if value is None else _value(value, inner, where)
    raise AssertionError(hint)
