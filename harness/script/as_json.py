"""A script as JSON. What is not a script is refused with the place that is wrong."""

from __future__ import annotations

import json
import types
import typing
from typing import Any

import attrs

from harness.script.checks import ScriptError, check, fields
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
    return from_json(data)


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
        raise ScriptError(f"{where}: expected an object, not {type(data).__name__}")
    version = data.get("version")
    if version != VERSION:
        raise ScriptError(f"{where}.version: {refusal(version)}")
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
                raise ScriptError(f"{here}: expected a list")
            made[key] = tuple(_item(item, kinds, f"{here}[{number}]") for number, item in enumerate(value))
        else:
            made[key] = value
    script: Script = _record(Script, made, where)
    check(script)
    return script


def _item(data: object, kinds: tuple[type, ...], where: str) -> Any:
    if not isinstance(data, dict):
        raise ScriptError(f"{where}: expected an object, not {type(data).__name__}")
    for kind in kinds:
        if kind.__name__ == data.get("kind"):
            return _record(kind, {key: value for key, value in data.items() if key != "kind"}, where)
    raise ScriptError(f"{where}.kind: {data.get('kind')!r} is none of {', '.join(kind.__name__ for kind in kinds)}")


def _record(cls: type, data: object, where: str) -> Any:
    if not isinstance(data, dict):
        raise ScriptError(f"{where}: expected an object, not {type(data).__name__}")
    hints = typing.get_type_hints(cls)
    made = {}
    for attribute in attrs.fields(cls):
        name = attribute.name
        if name in data:
            made[name] = _value(data[name], hints[name], f"{where}.{name}")
        elif attribute.default is attrs.NOTHING:
            raise ScriptError(f"{where}.{name}: missing")
    for name in data:
        if name not in hints:
            raise ScriptError(f"{where}.{name}: unknown; {cls.__name__} has {', '.join(hints)}")
    return cls(**made)


def _value(value: object, hint: Any, where: str) -> Any:
    if attrs.has(hint):
        return value if isinstance(value, hint) else _record(hint, value, where)
    if isinstance(value, tuple):
        return value  # made above
    if hint in (int, str, bool):
        if type(value) is not hint:
            raise ScriptError(f"{where}: expected {hint.__name__}, not {value!r}")
        return value
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise ScriptError(f"{where}: expected a list, not {value!r}")
        inner = typing.get_args(hint)[0]
        return tuple(_value(item, inner, f"{where}[{number}]") for number, item in enumerate(value))
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        return _value(value, next(arg for arg in typing.get_args(hint) if arg is not type(None)), where)
    raise AssertionError(hint)
