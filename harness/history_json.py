"""A history as text: a line that says what follows, then one line for each thing that was seen or decided.

So two histories can be compared line by line, and a part of one can be cut out by hand. What is not a whole history
of this version is refused with the line and the field that are wrong: a damaged history must not pass for a good one,
nor for proof of a bug.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.history import (
    CHANGES,
    EVENTS,
    FIRED,
    MODES,
    OPERATIONS,
    SERVED,
    STATES,
    WATCHES,
    Change,
    Event,
    History,
    Info,
    Invoke,
    Jump,
    Request,
    Response,
    SessionEvent,
    WatchFired,
)
from harness.json_lines import HistoryError, Records, parsed, to_json

VERSION: Final = 3
OLDER: Final = "versions 1 and 2 had other names for the kinds of records"
OF_NODES: Final = ("create", "set", "delete", "setacl")
"""Changes of one node."""
_RECORDS: Final = Records(
    {kind.__name__: kind for kind in (*EVENTS, Change, Jump)},
    {
        Request: {"op": OPERATIONS, "mode": MODES, "watch": WATCHES},
        WatchFired: {"event": FIRED},
        SessionEvent: {"state": STATES, "served": SERVED},
        Change: {"kind": CHANGES},
    },
)


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
    return f"expected version {VERSION}, not {version!r}" + (f": {OLDER}" if version in (1, 2, None) else "")


def _must_make_sense(events: Sequence[Event]) -> None:
    """What nobody can have seen: a client for whom time goes back, or a reply to somebody who did not ask."""
    asked: dict[int, Invoke] = {}
    clocks: dict[int, int] = {}
    for number, event in enumerate(events, 2):
        if event.client < 0:
            raise HistoryError(f"line {number}, client: {event.client} is no client")
        before = clocks.get(event.client, 0)
        if event.at < before:
            raise HistoryError(f"line {number}, at: {event.at} is before {before}, where client {event.client} was")
        clocks[event.client] = event.at
        if isinstance(event, Invoke):
            if asked.setdefault(event.call, event) is not event:
                raise HistoryError(f"line {number}, call: there is another call {event.call}")
        elif isinstance(event, Response | Info) and event.call in asked:
            by = asked[event.call]
            for name in ("client", "session"):
                found, right = getattr(event, name), getattr(by, name)
                if found != right:
                    raise HistoryError(f"line {number}, {name}: call {event.call} was asked by {right}, not {found}")


def _kind(record: object) -> str:
    return "changes" if isinstance(record, Change) else "jumps" if isinstance(record, Jump) else "events"


def from_json(data: Mapping[str, Any], where: str) -> Any:
    made = _RECORDS.from_json(data, where)
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
