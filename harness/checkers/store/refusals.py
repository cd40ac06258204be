"""Requests that a server refuses by itself: without a leader, or because they have waited for too long.

A read-only server answers reads, refuses everything else, and carries nothing out. Its state is old, which is legal. A
throttled request is refused only if its client's requests have waited for as long as the setting says; a later request
of a connection may be refused sooner after its invocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import Call, Case, by_call
from harness.history import Invoke, SessionEvent

READ_ONLY: Final = "a read-only server answers reads and refuses everything else"
THROTTLED: Final = "a throttled request is refused only after its wait"


def read_only(case: Case) -> Iterator[Broken]:
    there = _asked_of_readers(case)
    for call in case.calls.all:
        here, refused = call.asked.call in there, call.reply is not None and call.reply.error == "NOT_READ_ONLY"
        wanted = here and (call.write or call.request.op == "sync")
        if here and call.group is not None:
            yield by_call(READ_ONLY, call, "it was asked of a read-only server, and carried out", *call.group.changes)
        elif refused and not wanted:
            why = "a read" if here else "asked of a server that has a leader"
            yield by_call(READ_ONLY, call, f"it was refused (NOT_READ_ONLY), and is {why}")
        elif wanted and call.reply is not None and not refused:
            what = f"it was asked of a read-only server, and answered ({call.reply.error or 'done'})"
            yield by_call(READ_ONLY, call, what)


def _asked_of_readers(case: Case) -> set[int]:
    """Calls that were asked on a connection to a read-only server."""
    reads: dict[int, bool] = {}
    found: set[int] = set()
    for event in case.history.events:
        if isinstance(event, SessionEvent):
            reads[event.client] = event.state == "connected" and event.served == "read-only"
        elif isinstance(event, Invoke) and reads.get(event.client):
            found.add(event.call)
    return found


def throttled(case: Case, wait_ms: int) -> Iterator[Broken]:
    """`wait_ms`: the setting; 0: no request may be refused."""
    for calls in case.calls.of.values():
        for call in calls:
            if call.told is None or call.told.reply.error != "THROTTLED_OP":
                continue
            since = call.told.at - wait_ms * 1_000
            if not wait_ms or not any(_open_at(each, since) for each in calls):
                limit = f"no request of its client was open {wait_ms} ms before" if wait_ms else "no limit is set"
                yield by_call(THROTTLED, call, f"it was refused (THROTTLED_OP) at {call.told.at}, and {limit}")


def _open_at(call: Call, at: int) -> bool:
    """Return whether the call was asked, and not answered yet."""
    end = call.told or call.lost
    return call.asked.at <= at and (end is None or end.at >= at)
