"""A history as rows of a table: fields that queries need are columns, and `payload` has the whole record as JSON.

Each event, change and jump is a row. `(run, index)` is a key; the rows of a run, sorted by `index`, are its history.
The columns repeat fields of the payload, and only the payload is read back.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from typing import Any, Final, TypedDict

from harness.history import Change, Event, History, Info, Invoke, Jump, Response, SessionEvent, WatchFired
from harness.history_json import VERSION, from_json, head_of, records_of, unexpected
from harness.json_lines import HistoryError, to_json


class Row(TypedDict):
    run: str
    """Any name that identifies the run."""
    index: int
    """The position in the history: -1 for the header with the counts, then events from 0 on, then changes, then
    jumps."""
    kind: str
    """The kind of the record: History, Invoke, Response, Info, WatchFired, SessionEvent, Change or Jump."""
    at: int | None
    """The time in microseconds since the run began."""
    client: int | None
    session: int | None
    call: int | None
    server: int | None
    op: str | None
    """Invoke: the operation. WatchFired: the event. SessionEvent: the state. Change: its kind."""
    path: str | None
    error: str | None
    """Response: the name of the error, empty for success."""
    zxid: int | None
    """The zxid of a Response, WatchFired, Change or Jump."""
    payload: str
    """The record as JSON."""


def _column(hint: Any) -> tuple[type, bool]:
    kinds = typing.get_args(hint) or (hint,)
    return kinds[0], type(None) in kinds


COLUMNS: Final = {name: _column(hint) for name, hint in typing.get_type_hints(Row).items()}
"""The columns by name, each with its type (integers have 64 bits) and true if it may be null."""


def to_rows(history: History, run: str) -> list[Row]:
    rows = [_row(run, -1, "History", head_of(history))]
    for index, record in enumerate(records_of(history)):
        payload = to_json(record)
        rows.append(_row(run, index, str(payload["kind"]), payload, **_about(record)))
    return rows


def _row(run: str, index: int, kind: str, payload: dict[str, Any], **about: Any) -> Row:
    made: Any = dict.fromkeys(COLUMNS)
    made.update(about, run=run, index=index, kind=kind, payload=json.dumps(payload))
    row: Row = made
    return row


def _about(record: Event | Change | Jump) -> dict[str, object]:
    names = ("at", "client", "session", "call", "server", "path", "zxid")
    about: dict[str, object] = {name: getattr(record, name, None) for name in names}
    match record:
        case Invoke(request=request):
            about |= {"op": request.op, "path": request.path}
        case Response(reply=reply):
            about |= {"path": reply.path, "error": reply.error, "zxid": reply.zxid}
        case WatchFired():
            about["op"] = record.event
        case SessionEvent():
            about["op"] = record.state
        case Change():
            about["op"] = record.kind
        case Info() | Jump():
            pass
    return about


def from_rows(rows: Iterable[Row]) -> History:
    """Read the rows of one run, in any order. Raise `HistoryError` if some are missing or changed."""
    ordered = sorted(rows, key=lambda row: row["index"])
    runs = sorted({row["run"] for row in ordered})
    if len(runs) != 1:
        raise HistoryError(f"a history needs the rows of one run; these are rows of {len(runs)} runs")
    if [row["index"] for row in ordered] != list(range(-1, len(ordered) - 1)):
        raise HistoryError(f"run {runs[0]}: rows are missing or duplicated")
    head = _payload(ordered[0])
    if head.get("history") != VERSION:
        raise HistoryError(f"run {runs[0]}, row -1, history: {unexpected(head.get('history'))}")
    made = [from_json(_payload(row), f"run {runs[0]}, row {row['index']}") for row in ordered[1:]]
    jumps = tuple(record for record in made if isinstance(record, Jump))
    changes = tuple(record for record in made if isinstance(record, Change))
    events = tuple(record for record in made if not isinstance(record, Change | Jump))
    history = History(events, changes, None if head.get("jumps") is None else jumps)
    if head_of(history) != head or made != [*events, *changes, *jumps]:
        raise HistoryError(f"run {runs[0]}: the rows do not match the counts in row -1")
    return history


def _payload(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(row["payload"])
    except ValueError as error:
        raise HistoryError(f"run {row['run']}, row {row['index']}: no JSON: {error}") from error
    if not isinstance(found, dict):
        raise HistoryError(f"run {row['run']}, row {row['index']}: expected an object")
    return found
