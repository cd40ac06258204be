"""A server without a leader answers reads, refuses everything else, and carries nothing out.

What it shows is old, and that is legal: the other invariants hold for what it shows, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken
from harness.checkers.store.case import Case, broken
from harness.history import Asked, Became

READ_ONLY: Final = "a read-only server answers reads and refuses everything else"
REFUSED: Final = "NOT_READ_ONLY"


def check(case: Case) -> Iterator[Broken]:
    there = _asked_of_readers(case)
    for call in case.calls.all:
        here, refused = call.asked.call in there, call.reply is not None and call.reply.error == REFUSED
        wanted = here and (call.write or call.request.op == "sync")
        if here and call.group is not None:
            yield broken(READ_ONLY, call, "it was asked of a read-only server, and carried out", *call.group.changes)
        elif refused and not wanted:
            why = "a read" if here else "asked of a server that has a leader"
            yield broken(READ_ONLY, call, f"it was refused ({REFUSED}), and is {why}")
        elif wanted and call.reply is not None and not refused:
            what = f"it was asked of a read-only server, and answered ({call.reply.error or 'done'})"
            yield broken(READ_ONLY, call, what)


def _asked_of_readers(case: Case) -> set[int]:
    """Calls that were asked on a connection to a read-only server."""
    reads: dict[int, bool] = {}
    found: set[int] = set()
    for event in case.history.events:
        if isinstance(event, Became):
            reads[event.client] = event.state == "connected" and event.served == "read-only"
        elif isinstance(event, Asked) and reads.get(event.client):
            found.add(event.call)
    return found
