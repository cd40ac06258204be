"""Requests that a server refuses by itself: without a leader, or because they have waited for too long.

A read-only server answers reads, possibly from an old state, refuses everything else, and carries nothing out. Any
server throttles a request only if the client's requests have waited for the configured time. A later request of a
connection may be refused sooner after its own invocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import WITHOUT_TRANSACTION, Call, Case, by_call
from harness.history import Invoke, SessionEvent

READ_ONLY: Final = "a read-only server answers reads and refuses everything else"
THROTTLED: Final = "a throttled request is refused only after its wait"


def read_only(case: Case) -> Iterator[Broken]:
    there = _sent_to_read_only(case)
    for call in case.calls.all:
        here, refused = call.invoke.call in there, call.reply is not None and call.reply.error == "NOT_READ_ONLY"
        wanted = here and (call.write or call.request.op == "sync")
        if here and call.group is not None:
            yield by_call(READ_ONLY, call, "it was sent to a read-only server, but carried out", *call.group.changes)
        elif refused and not wanted:
            why = "it is a read" if here else "the server has a leader"
            yield by_call(READ_ONLY, call, f"it was refused (NOT_READ_ONLY), but {why}")
        elif wanted and call.reply is not None and call.reply.error not in WITHOUT_TRANSACTION:
            what = f"it was sent to a read-only server, but the reply is {call.reply.error or 'done'}"
            yield by_call(READ_ONLY, call, what)


def _sent_to_read_only(case: Case) -> set[int]:
    """Return the calls that were sent on a connection to a read-only server."""
    reads: dict[int, bool] = {}
    found: set[int] = set()
    for event in case.history.events:
        if isinstance(event, SessionEvent):
            reads[event.client] = event.state == "connected" and event.served == "read-only"
        elif isinstance(event, Invoke) and reads.get(event.client):
            found.add(event.call)
    return found


def throttled(case: Case, wait_ms: int) -> Iterator[Broken]:
    """Check each throttled request. `wait_ms` is the configured wait; with 0 no request may be throttled."""
    for calls in case.calls.of.values():
        for call in calls:
            if call.response is None or call.response.reply.error != "THROTTLED_OP":
                continue
            since = call.response.at - wait_ms * 1_000
            if not wait_ms or not any(_open_at(each, since) for each in calls):
                limit = f"its client had no open request {wait_ms} ms earlier" if wait_ms else "throttling is off"
                yield by_call(THROTTLED, call, f"it was refused (THROTTLED_OP) at {call.response.at}, but {limit}")


def _open_at(call: Call, at: int) -> bool:
    """Return whether the call was invoked, and not answered yet."""
    end = call.response or call.info
    return call.invoke.at <= at and (end is None or end.at >= at)
