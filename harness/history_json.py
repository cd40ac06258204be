"""A history as text: a line that says what follows, then one line for each thing that was seen or decided.

So two histories can be compared line by line, and a part of one can be cut out by hand. What is not a whole history
of this version is refused with the line and the field that are wrong: a damaged history must not pass for a good one,
nor for proof of a bug.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from harness.history import (
    CHANGES,
    EVENTS,
    FIRED,
    MODES,
    OPERATIONS,
    SERVED,
    STATES,
    WATCHES,
    Asked,
    Change,
    Event,
    Fired,
    History,
    Jump,
    Lost,
    Reply,
    Request,
    Told,
)
from harness.json_lines import HistoryError, integer, parsed

VERSION: Final = 2
OLDER: Final = "version 1 said neither who may do what with a node nor which nodes servers may take away"
_RECORDS: Final[dict[str, type]] = {kind.__name__: kind for kind in (*EVENTS, Change, Jump)}
OF_NODES: Final = ("create", "set", "delete", "setacl")
"""Changes of one node."""
_DEPTH_MAX: Final = 2
"""Parts of a multi have no parts."""


# -- to text -------------------------------------------------------------------------------------------


def dumps(history: History) -> str:
    head = {
        "history": VERSION,
        "events": len(history.events),
        "changes": len(history.changes),
        "jumps": None if history.jumps is None else len(history.jumps),
    }
    records = (*history.events, *history.changes, *(history.jumps or ()))
    return "\n".join((json.dumps(head), *(json.dumps(to_json(record)) for record in records), ""))


def to_json(record: Any) -> dict[str, object]:
    """Return the kind, and the fields that differ from the defaults."""
    return {"kind": type(record).__name__, **_fields(record)}


def _fields(record: Any) -> dict[str, object]:
    made = {}
    for attribute in attrs.fields(type(record)):
        held = getattr(record, attribute.name)
        if attribute.default is attrs.NOTHING or held != attribute.default:
            made["change" if attribute.name == "kind" else attribute.name] = _plain(held)
    return made


def _plain(held: Any) -> object:
    if attrs.has(type(held)):
        return _fields(held)
    if isinstance(held, bytes):
        return held.decode("latin-1")  # each byte is one character, and text stays readable
    if isinstance(held, tuple):
        return [_plain(part) for part in held]
    return held


# -- from text -----------------------------------------------------------------------------------------


def loads(text: str) -> History:
    lines = text.splitlines()
    head = parsed(lines[0] if lines else "", 1)
    if head.get("history") != VERSION:
        raise HistoryError(f"line 1, history: {unexpected(head.get('history'))}")
    counts = {name: head.get(name) for name in ("events", "changes", "jumps")}
    for name, count in counts.items():
        if type(count) is not int and not (name == "jumps" and count is None):
            raise HistoryError(f"line 1, {name}: expected how many there are, not {count!r}")
    records = [from_json(parsed(line, number), f"line {number}") for number, line in enumerate(lines[1:], 2)]
    kinds = [_kind(record) for record in records]
    if sorted(kinds, key=list(counts).index) != kinds:
        raise HistoryError("events come first, then changes, then jumps; here they are mixed")
    for name, count in counts.items():
        if kinds.count(name) != (count or 0):
            raise HistoryError(f"line 1 promises {count or 0} {name}, and there are {kinds.count(name)}")
    parts: dict[str, list[Any]] = {name: [] for name in counts}
    for kind, record in zip(kinds, records, strict=True):
        parts[kind].append(record)
    _must_make_sense(parts["events"])
    jumps = None if counts["jumps"] is None else tuple(parts["jumps"])
    return History(tuple(parts["events"]), tuple(parts["changes"]), jumps)


def unexpected(version: object) -> str:
    """Why a history of that version is not read."""
    return f"expected version {VERSION}, not {version!r}" + (f": {OLDER}" if version in (1, None) else "")


def _must_make_sense(events: Sequence[Event]) -> None:
    """What nobody can have seen: a client for whom time goes back, or a reply to somebody who did not ask."""
    asked: dict[int, Asked] = {}
    clocks: dict[int, int] = {}
    for number, event in enumerate(events, 2):
        if event.client < 0:
            raise HistoryError(f"line {number}, client: {event.client} is no client")
        before = clocks.get(event.client, 0)
        if event.at < before:
            raise HistoryError(f"line {number}, at: {event.at} is before {before}, where client {event.client} was")
        clocks[event.client] = event.at
        if isinstance(event, Asked):
            if asked.setdefault(event.call, event) is not event:
                raise HistoryError(f"line {number}, call: there is another call {event.call}")
        elif isinstance(event, Told | Lost) and event.call in asked:
            by = asked[event.call]
            for name, found, right in (
                ("client", event.client, by.client),
                ("session", event.session, by.session),
            ):
                if found != right:
                    raise HistoryError(f"line {number}, {name}: call {event.call} was asked by {right}, not {found}")


def _kind(record: object) -> str:
    return "changes" if isinstance(record, Change) else "jumps" if isinstance(record, Jump) else "events"


def from_json(data: Mapping[str, Any], where: str) -> Any:
    kind = _RECORDS.get(str(data.get("kind")))
    if kind is None:
        raise HistoryError(f"{where}, kind: {data.get('kind')!r} is none of {', '.join(_RECORDS)}")
    fields = {key: value for key, value in data.items() if key != "kind"}
    if kind is Change and "change" in fields:
        fields["kind"] = fields.pop("change")
    made = _record(kind, fields, where, 0)
    if isinstance(made, Change):
        _must_be_possible(made, where)
    return made


def _must_be_possible(change: Change, where: str) -> None:
    """No server has ever written down anything else."""
    if change.part < 0:
        raise HistoryError(f"{where}, part: {change.part} is no place in a multi")
    if change.kind in OF_NODES and not change.path.startswith("/"):
        raise HistoryError(f"{where}, path: {change.path!r} does not begin with /")
    for number, path in enumerate(change.gone):
        if not path.startswith("/"):
            raise HistoryError(f"{where}, gone[{number}]: {path!r} does not begin with /")


def _record(cls: type, data: object, where: str, depth: int) -> Any:
    if not isinstance(data, dict):
        raise HistoryError(f"{where}: expected an object, not {type(data).__name__}")
    hints = typing.get_type_hints(cls)
    made = {}
    for attribute in attrs.fields(cls):
        name = attribute.name
        if name in data:
            made[name] = _value(data[name], hints[name], f"{where}, {name}", depth)
        elif attribute.default is attrs.NOTHING:
            raise HistoryError(f"{where}, {name}: missing")
    for name in data:
        if name not in hints:
            raise HistoryError(f"{where}, {name}: unknown; {cls.__name__} has {', '.join(hints)}")
    allowed = _CHOICES.get(cls, {})
    for name, choices in allowed.items():
        if made.get(name, choices[0]) not in choices:
            raise HistoryError(f"{where}, {name}: {made[name]!r} is none of {', '.join(map(repr, choices))}")
    return cls(**made)


_CHOICES: Final[dict[type, dict[str, tuple[str, ...]]]] = {
    Request: {"op": OPERATIONS, "mode": MODES, "watch": WATCHES},
    Fired: {"event": FIRED},
    _RECORDS["Became"]: {"state": STATES, "served": SERVED},
    Change: {"kind": CHANGES},
}


def _value(value: object, hint: Any, where: str, depth: int) -> Any:
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if attrs.has(hint):
        return _record(hint, value, where, depth + 1)
    if hint is bytes:
        if type(value) is not str or any(ord(character) > 0xFF for character in value):
            raise HistoryError(f"{where}: expected bytes, written as characters up to \\u00ff")
        return value.encode("latin-1")
    if hint is int:
        return integer(value, where)
    if hint is str:
        if type(value) is not str:
            raise HistoryError(f"{where}: expected str, not {value!r:.80}")
        return value
    assert typing.get_origin(hint) is tuple, hint
    if not isinstance(value, list):
        raise HistoryError(f"{where}: expected a list, not {value!r:.80}")
    inner = typing.get_args(hint)[0]
    if inner in (Request, Reply) and depth >= _DEPTH_MAX:
        raise HistoryError(f"{where}: a part of a multi has no parts")
    return tuple(_value(item, inner, f"{where}[{number}]", depth) for number, item in enumerate(value))
