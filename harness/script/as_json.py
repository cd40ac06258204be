"""A script as JSON. What is not a script is refused with the place that is wrong."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, Final

import attrs

from harness.script.checks import ScriptError, Senseless, check, fields
from harness.script.script import FAULTS, Knobs, Script, Timing
from harness.script.versions import VERSION, refusal
from harness.script.workload import OPS

# -- to JSON -------------------------------------------------------------------------------------------


def to_json(script: Script) -> dict[str, object]:
    made: dict[str, object] = {"version": VERSION}
    for name, value in fields(script):
        if name in ("groups", "weights") and not value:
            continue  # as it was before there were any
        if name in ("faults", "ops"):
            made[name] = [{"kind": type(item).__name__, **_plain(item)} for item in value]
        else:
            made[name] = _plain(value) if attrs.has(type(value)) else value
    return made


def dumps(script: Script) -> str:
    """One line for each fault and each operation, so that two scripts can be compared line by line."""
    made = to_json(script)
    lines = []
    for name, value in made.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f' "{name}": [\n  {items}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: Any) -> dict[str, object]:
    return {name: [_plain(part) for part in held] if _is_steps(held) else held for name, held in fields(value)}


def _is_steps(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and attrs.has(type(value[0]))


# -- from JSON -----------------------------------------------------------------------------------------


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
        raise ScriptError(f"{place}: this number is too large") from error
    try:
        return from_json(data)
    except Senseless as error:
        at = position(text, error.where)
        raise ScriptError(f"{_line_and_column(text, at)}: {error}") from error


_TOO_MANY_DIGITS: Final = re.compile(r"\d{1000,}")
_SOMETHING: Final = re.compile(r"\S")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")


def position(text: str, where: str) -> int:
    """Where in a text that is JSON a place like `script.faults[0].server` begins, or what it would be in."""
    scan = json.JSONDecoder().raw_decode

    def space(at: int) -> int:
        return len(text) if (found := _SOMETHING.search(text, at)) is None else found.start()

    def items(at: int) -> Iterator[tuple[object, int]]:
        """Keys or numbers, and where the values begin."""
        is_object, number, at = text[at] == "{", 0, space(at + 1)
        while text[at] not in "}]":
            key: object = number
            if is_object:
                key, at = scan(text, at)
                at = space(space(at) + 1)  # behind the colon
            yield key, at
            at, number = space(scan(text, at)[1]), number + 1
            at = space(at + 1) if text[at] == "," else at

    found = space(0)
    for name, number in _STEP.findall(where):
        step = name or int(number)
        inside = dict(items(found)) if text[found] in "{[" else {}
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
            raise ScriptError(f"{name!r} is said twice in one object: {made[name]!r:.60} and {value!r:.60}")
        made[name] = value
    return made


def from_json(data: object) -> Script:
    where = "script"
    if not isinstance(data, dict):
        raise Senseless(where, f"expected an object, not {type(data).__name__}")
    version = data.get("version")
    if version != VERSION:
        raise Senseless(f"{where}.version", refusal(version))
    given = {key: value for key, value in data.items() if key != "version"}
    made: dict[str, Any] = {}
    for key, value in given.items():
        here = f"{where}.{key}"
        if key == "timing":
            made[key] = _record(Timing, value, here)
        elif key == "knobs":
            made[key] = _record(Knobs, value, here)
        elif key in ("faults", "ops"):
            kinds = FAULTS if key == "faults" else OPS
            if not isinstance(value, list):
                raise Senseless(here, "expected a list")
            made[key] = tuple(_item(item, kinds, f"{here}[{number}]") for number, item in enumerate(value))
        else:
            made[key] = value
    script: Script = _record(Script, made, where)
    check(script)
    return script


def _item(data: object, kinds: tuple[type, ...], where: str) -> Any:
    if not isinstance(data, dict):
        raise Senseless(where, f"expected an object, not {type(data).__name__}")
    for kind in kinds:
        if kind.__name__ == data.get("kind"):
            return _record(kind, {key: value for key, value in data.items() if key != "kind"}, where)
    raise Senseless(f"{where}.kind", f"{data.get('kind')!r} is none of {', '.join(kind.__name__ for kind in kinds)}")


def _record(cls: type, data: object, where: str) -> Any:
    if not isinstance(data, dict):
        raise Senseless(where, f"expected an object, not {type(data).__name__}")
    hints = typing.get_type_hints(cls)
    made = {}
    for attribute in attrs.fields(cls):
        name = attribute.name
        if name in data:
            made[name] = _value(data[name], hints[name], f"{where}.{name}")
        elif attribute.default is attrs.NOTHING:
            raise Senseless(f"{where}.{name}", "missing")
    for name in data:
        if name not in hints:
            raise Senseless(f"{where}.{name}", f"unknown; {cls.__name__} has {', '.join(hints)}")
    return cls(**made)


def _value(value: object, hint: Any, where: str) -> Any:
    if attrs.has(hint):
        return value if isinstance(value, hint) else _record(hint, value, where)
    if isinstance(value, tuple):
        return value  # made above
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
        if value is None:
            return None
        return _value(value, next(arg for arg in typing.get_args(hint) if arg is not type(None)), where)
    raise AssertionError(hint)
