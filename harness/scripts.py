"""A script as JSON and as text a person reads. What is not a script is refused with the place that is wrong."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs

from harness.faults import (
    CHANGES,
    DEEDS,
    DISK_ERRORS,
    FAULTS,
    FOLLOWER,
    LEADER,
    LOSSES,
    MACHINES,
    MOMENTS,
    OPS,
    Fault,
    Knobs,
    Op,
    Script,
    Step,
    Timing,
    When,
)
from harness.history import MODES, OPERATIONS, WATCHES

VERSION: Final = 1
"""Of the JSON form. A script from another version means something else, so it is refused."""

SERVERS_MAX: Final = 30


class ScriptError(ValueError):
    """Not a script of this version. The message names the place."""


# -- to JSON -------------------------------------------------------------------------------------------


def to_json(script: Script) -> dict[str, object]:
    made: dict[str, object] = {"version": VERSION}
    for name, value in _fields(script):
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


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(attribute.name, getattr(value, attribute.name)) for attribute in attrs.fields(type(value))]


def _plain(value: Any) -> dict[str, object]:
    return {name: [_plain(part) for part in held] if _is_steps(held) else held for name, held in _fields(value)}


def _is_steps(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and attrs.has(type(value[0]))


# -- from JSON -----------------------------------------------------------------------------------------


def loads(text: str) -> Script:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ScriptError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from error
    return from_json(data)


def from_json(data: object) -> Script:
    where = "script"
    if not isinstance(data, dict):
        raise ScriptError(f"{where}: expected an object, not {type(data).__name__}")
    version = data.get("version")
    if version != VERSION:
        raise ScriptError(f"{where}.version: expected {VERSION}, not {version!r}")
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


# -- sense ---------------------------------------------------------------------------------------------


def check(script: Script) -> None:
    """What the types cannot say."""
    if not 1 <= script.voters <= script.servers <= SERVERS_MAX:
        raise ScriptError(f"script.voters: from 1 to {SERVERS_MAX} servers, at least one of them a voter")
    if script.machine not in MACHINES:
        raise ScriptError(f"script.machine: {script.machine!r} is none of {', '.join(MACHINES)}")
    if script.length_ms < 1:
        raise ScriptError("script.length_ms: a run takes time")
    for place in ("timing", "knobs"):
        for name, value in _fields(getattr(script, place)):
            if value < 0:
                raise ScriptError(f"script.{place}.{name}: {value} is negative")
    for kind, items in (("ops", script.ops), ("faults", script.faults)):
        for number, item in enumerate(items):
            _check_item(item, script, f"script.{kind}[{number}]")


_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": LOSSES,
    "error": DISK_ERRORS,
    "moment": MOMENTS,
    "does": DEEDS,
    "change": CHANGES,
    "op": tuple(op for op in OPERATIONS if op != "multi"),
    "mode": MODES,
    "watch": WATCHES,
}


def _check_item(item: Fault | Op | Step, script: Script, where: str) -> None:
    for name, value in _fields(item):
        here = f"{where}.{name}"
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise ScriptError(f"{here}: {value!r} is none of {', '.join(_CHOICES[name])}")
        elif name in ("server", "source", "target"):
            if value is not None and not FOLLOWER <= value <= SERVERS_MAX:
                raise ScriptError(f"{here}: there is no server {value}")
        elif name == "steps":
            if not value:
                raise ScriptError(f"{here}: at least one")
            for number, step in enumerate(value):
                _check_item(step, script, f"{here}[{number}]")
        elif name == "version":
            if value < -1:
                raise ScriptError(f"{here}: -1 is any, and nothing is below that")
        elif name == "path":
            if not value.startswith("/") and value:
                raise ScriptError(f"{here}: {value!r} does not begin with /")
        elif name == "groups":
            if any(not LEADER <= sid <= SERVERS_MAX for group in value for sid in group):
                raise ScriptError(f"{here}: there is no such server")
        elif type(value) is int and value < (1 if name in ("nth", "acts", "count", "slower", "client") else 0):
            raise ScriptError(f"{here}: {value} is too small")
        if name == "at" and value > script.length_ms:
            raise ScriptError(f"{here}: the run ends at {script.length_ms}")


# -- to text -------------------------------------------------------------------------------------------


def describe(script: Script) -> str:
    """A page a person can read: the world, then what happens in the order of time."""
    lines = [
        f"seed {script.seed}: {script.voters} voters, {script.observers} observers, {script.length_ms} ms"
        + ("" if script.machine == MACHINES[0] else f", the {script.machine}"),
        *(_differences("timing", script.timing, Timing())),
        *(_differences("knobs", script.knobs, Knobs())),
    ]
    events = [(item.at, number, item) for number, item in enumerate((*script.faults, *script.ops))]
    for at, _, item in sorted(events, key=lambda event: event[:2]):
        words = ", ".join(_word(name, value) for name, value in _fields(item) if name != "at" and value is not None)
        if isinstance(item, When) and item.server is None:
            words = f"whoever, {words}"
        lines.append(f"{at:>7} ms  {type(item).__name__:<12} {words}")
    return "\n".join(lines)


def _differences(name: str, value: Timing | Knobs, usual: Timing | Knobs) -> list[str]:
    changed = [
        f"{key}={mine}"
        for (key, mine), (_, theirs) in zip(_fields(value), _fields(usual), strict=True)
        if mine != theirs
    ]
    return [f"{name}: {' '.join(changed)}"] if changed else []


def _word(name: str, value: object) -> str:
    if name in ("server", "source", "target"):
        return f"{name} " + {LEADER: "leader", FOLLOWER: "follower"}.get(value, str(value))  # type: ignore[call-overload, no-any-return]
    if name == "groups":
        assert isinstance(value, tuple)
        return " | ".join(" ".join("leader" if sid == LEADER else str(sid) for sid in group) for group in value)
    if name == "steps":
        assert isinstance(value, tuple)
        return " + ".join(_step(step) for step in value)
    if name.endswith("_ms"):
        return f"{name[:-3].replace('_', ' ')} {value} ms"
    if isinstance(value, str):
        return value if name in ("moment", "does") else f"{name} {value}"
    return f"{name.replace('_', ' ')} {value}"


def _step(step: Step) -> str:
    words = [step.op, step.path, step.mode, step.watch and f"watch {step.watch}"]
    if step.version != -1:
        words.append(f"version {step.version}")
    return " ".join(word for word in words if word)
