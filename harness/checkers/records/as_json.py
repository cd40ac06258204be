"""A history as text: a line that says what follows, then one line for each thing that was seen.

What is not a whole history of this version is refused with the line and the field that are wrong, and so is one that
contradicts itself: an answer to a call that nobody made, one value sent twice, time that goes back.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs

from harness.checkers.records.case import Contradiction, prepared
from harness.checkers.records.history import EVENTS, Event, History
from harness.json_lines import HistoryError, integer, parsed

VERSION: Final = 1
HEAD: Final = "records"
"""The first key of such a file, with the version; by it other histories are told apart."""
_KINDS: Final[dict[str, type[Event]]] = {kind.__name__: kind for kind in EVENTS}


# -- to text -------------------------------------------------------------------------------------------


def dumps(history: History) -> str:
    head = {HEAD: VERSION, "events": len(history.events), "complete": history.complete}
    return "\n".join((json.dumps(head), *(json.dumps(to_json(event)) for event in history.events), ""))


def to_json(event: Event) -> dict[str, object]:
    """Return the kind, and the fields that differ from the defaults."""
    made: dict[str, object] = {"kind": type(event).__name__}
    for attribute in attrs.fields(type(event)):
        held = getattr(event, attribute.name)
        if attribute.default is attrs.NOTHING or held != attribute.default:
            made[attribute.name] = held
    return made


# -- from text -----------------------------------------------------------------------------------------


def is_of_brokers(text: str) -> bool:
    """By its first line, whatever follows."""
    try:
        head = json.loads(text.partition("\n")[0])
    except (RecursionError, ValueError):
        return False
    return isinstance(head, dict) and HEAD in head


def loads(text: str) -> History:
    lines = text.splitlines()
    head = parsed(lines[0] if lines else "", 1)
    if head.get(HEAD) != VERSION:
        raise HistoryError(f"line 1, {HEAD}: expected version {VERSION}, not {head.get(HEAD)!r}")
    complete, count = head.get("complete"), head.get("events")
    if type(complete) is not bool:
        raise HistoryError(f"line 1, complete: expected true or false, not {complete!r}")
    if type(count) is not int or count != len(lines) - 1:
        raise HistoryError(f"line 1, events: it promises {count!r}, and there are {len(lines) - 1}")
    events = tuple(from_json(parsed(line, number), f"line {number}") for number, line in enumerate(lines[1:], 2))
    history = History(events, complete)
    try:
        prepared(history)
    except Contradiction as error:
        raise HistoryError(f"line {error.place + 2}: {error.what}") from error
    return history


def from_json(data: Mapping[str, Any], where: str) -> Event:
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise HistoryError(f"{where}, kind: {data.get('kind')!r} is none of {', '.join(_KINDS)}")
    hints = typing.get_type_hints(kind)
    made = {}
    for attribute in attrs.fields(kind):
        if attribute.name in data:
            made[attribute.name] = _value(data[attribute.name], hints[attribute.name], f"{where}, {attribute.name}")
        elif attribute.default is attrs.NOTHING:
            raise HistoryError(f"{where}: a {kind.__name__} says {attribute.name}")
    unknown = sorted(data.keys() - made.keys() - {"kind"})
    if unknown:
        raise HistoryError(f"{where}: a {kind.__name__} has no {', '.join(unknown)}")
    return kind(**made)


def _value(value: object, hint: Any, where: str) -> Any:
    if hint is int:
        return integer(value, where)
    if hint is str:
        if type(value) is not str:
            raise HistoryError(f"{where}: expected str, not {value!r:.80}")
        return value
    if not isinstance(value, list):
        raise HistoryError(f"{where}: expected a list, not {value!r:.80}")
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_value(item, inner, f"{where}[{number}]") for number, item in enumerate(value))
    fields = typing.get_type_hints(hint)  # of a named tuple
    if len(value) != len(fields):
        raise HistoryError(f"{where}: expected {', '.join(fields)}, not {value!r:.80}")
    return hint(*(_value(item, of, f"{where}.{name}") for item, (name, of) in zip(value, fields.items(), strict=True)))
