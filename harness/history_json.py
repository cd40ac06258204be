"""A history as text: a header line with counts, then one line of JSON for each event, change and jump.

The format allows comparing two histories line by line, and cutting out a part by hand. `loads` refuses everything but a
complete history of this version, and names the wrong line and field: a damaged history must not pass as valid, nor as
the proof of a bug.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness import history
from harness.history import Change, Event, History, Jump
from harness.json_lines import HistoryError, Records, parsed, to_json

VERSION: Final = 3
OLDER: Final = "versions 1 and 2 had other names for the kinds of records"
OF_NODES: Final = ("create", "set", "delete", "setacl")
"""The kinds of changes of one node."""
_RECORDS: Final = Records(
    {kind.__name__: kind for kind in (*history.EVENTS, Change, Jump)},
    {
        history.Request: {"op": history.OPERATIONS, "mode": history.MODES, "watch": history.WATCHES},
        history.WatchFired: {"event": history.FIRED},
        history.SessionEvent: {"state": history.STATES, "served": history.SERVED},
        Change: {"kind": history.CHANGES},
    },
)


# -- to text -------------------------------------------------------------------------------------------


def head_of(history: History) -> dict[str, int | None]:
    jumps = None if history.jumps is None else len(history.jumps)
    return {"history": VERSION, "events": len(history.events), "changes": len(history.changes), "jumps": jumps}


def records_of(history: History) -> tuple[Event | Change | Jump, ...]:
    return (*history.events, *history.changes, *(history.jumps or ()))


def dumps(history: History) -> str:
    records = map(to_json, records_of(history))
    return "\n".join((json.dumps(head_of(history)), *map(json.dumps, records), ""))


# -- from text -----------------------------------------------------------------------------------------


def loads(text: str) -> History:
    lines = text.splitlines()
    head = parsed(lines[0] if lines else "", 1)
    if head.get("history") != VERSION:
        raise HistoryError(f"line 1, history: {unexpected(head.get('history'))}")
    counts = {name: head.get(name) for name in ("events", "changes", "jumps")}
    for name, count in counts.items():
        if type(count) is not int and not (name == "jumps" and count is None):
            raise HistoryError(f"line 1, {name}: expected a number, not {count!r}")
    records = [from_json(parsed(line, number), f"line {number}") for number, line in enumerate(lines[1:], 2)]
    kinds = [_kind(record) for record in records]
    if sorted(kinds, key=list(counts).index) != kinds:
        raise HistoryError("events, changes and jumps are mixed: all events must come first, then changes, then jumps")
    for name, count in counts.items():
        if kinds.count(name) != (count or 0):
            raise HistoryError(f"line 1 announces {count or 0} {name}, but the history has {kinds.count(name)}")
    parts: dict[str, list[Any]] = {name: [] for name in counts}
    for kind, record in zip(kinds, records, strict=True):
        parts[kind].append(record)
    _must_make_sense(parts["events"])
    jumps = None if counts["jumps"] is None else tuple(parts["jumps"])
    return History(tuple(parts["events"]), tuple(parts["changes"]), jumps)


def unexpected(version: object) -> str:
    """Return the error message for a history of that version."""
    return f"expected version {VERSION}, not {version!r}" + (f": {OLDER}" if version in (1, 2, None) else "")


def _must_make_sense(events: Sequence[Event]) -> None:
    """Refuse events that no client can have recorded: times that decrease, or a reply to another client's call."""
    asked: dict[int, history.Invoke] = {}
    clocks: dict[int, int] = {}
    for number, event in enumerate(events, 2):
        if event.client < 0:
            raise HistoryError(f"line {number}, client: {event.client} is negative")
        before = clocks.get(event.client, 0)
        if event.at < before:
            raise HistoryError(
                f"line {number}, at: {event.at} is before {before}; times of client {event.client} must ascend"
            )
        clocks[event.client] = event.at
        if isinstance(event, history.Invoke):
            if asked.setdefault(event.call, event) is not event:
                raise HistoryError(f"line {number}, call: call {event.call} is invoked twice")
        elif isinstance(event, history.Response | history.Info) and event.call in asked:
            by = asked[event.call]
            for name in ("client", "session"):
                found, right = getattr(event, name), getattr(by, name)
                if found != right:
                    raise HistoryError(
                        f"line {number}, {name}: call {event.call} belongs to {name} {right}, not {found}"
                    )


def _kind(record: object) -> str:
    return "changes" if isinstance(record, Change) else "jumps" if isinstance(record, Jump) else "events"


def from_json(data: Mapping[str, Any], where: str) -> Any:
    made = _RECORDS.from_json(data, where)
    if isinstance(made, Change):
        _must_be_possible(made, where)
    return made


def _must_be_possible(change: Change, where: str) -> None:
    """Refuse changes that no log of a server can contain."""
    if change.part < 0:
        raise HistoryError(f"{where}, part: {change.part} is negative")
    if change.kind in OF_NODES and not change.path.startswith("/"):
        raise HistoryError(f"{where}, path: {change.path!r} does not begin with /")
    for number, path in enumerate(change.gone):
        if not path.startswith("/"):
            raise HistoryError(f"{where}, gone[{number}]: {path!r} does not begin with /")
