"""A history as text: a header line, then one line of JSON for each event.

`loads` refuses everything but a complete history of this version, and names the wrong line and field. It also refuses
contradictions: a reply without a call, a value that is sent twice, times that decrease.
"""

from __future__ import annotations

import json
from typing import Final

from harness.checkers.records.case import Contradiction, prepared
from harness.checkers.records.history import EVENTS, History
from harness.json_lines import HistoryError, Records, parsed, to_json

VERSION: Final = 1
HEAD: Final = "records"
"""The key in the header that has the version. It distinguishes these files from other histories."""
RECORDS: Final = Records({kind.__name__: kind for kind in EVENTS})


# -- to text -------------------------------------------------------------------------------------------


def dumps(history: History) -> str:
    head = {HEAD: VERSION, "events": len(history.events), "complete": history.complete}
    return "\n".join((json.dumps(head), *(json.dumps(to_json(event)) for event in history.events), ""))


# -- from text -----------------------------------------------------------------------------------------


def is_of_brokers(text: str) -> bool:
    """Return whether the first line is the header of a history of brokers' clients."""
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
        raise HistoryError(f"line 1, events: the header announces {count!r}, but the history has {len(lines) - 1}")
    events = tuple(
        RECORDS.from_json(parsed(line, number), f"line {number}") for number, line in enumerate(lines[1:], 2)
    )
    history = History(events, complete)
    try:
        prepared(history)
    except Contradiction as error:
        raise HistoryError(f"line {error.place + 2}: {error.what}") from error
    return history
