"""A silent session expires after its timeout, as far as clients can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import WITHOUT_TRANSACTION, is_write
from harness.history import History, Invoke, Response, SessionEvent

SILENT: Final = "a silent session expires after its timeout"


def ended_early(history: History, scale: float = 1.0) -> Iterator[Broken]:
    """Check that no session is ended early. `scale`: microseconds of a server's clock per microsecond of the history.

    An answered sync proves that the leader has received a message of the session, not before the sync's request. If the
    client learns of the expiry sooner than the timeout after its newest such request, the session was ended early.
    There is one exception: the end was already proposed, and waited for disks and a quorum, which stops no sync. A
    write that was requested after the reply to the sync, and that precedes the end in the history, excludes this.

    A local session ends when its client goes to another server, even if a transaction makes it global after that, and
    another one closes it.

    Pings and other replies prove nothing: a server may not have reported them to the leader. A reconnection proves
    nothing either: the leader may decide on the end before it has applied it. All clocks must have the same rate.
    """
    ends = {change.session: change.zxid for change in history.changes if change.kind == "close"}
    before = last_request_before(history, ends.values())
    asked: dict[int, int] = {}
    last_sync: dict[int, tuple[int, int]] = {}
    timeouts: dict[int, int] = {}
    local_at: dict[int, int] = {}
    for event in history.events:
        session = event.session
        match event:
            case Invoke() if event.request.op == "sync":
                asked[event.call] = event.at
            case Response() if event.call in asked and not event.reply.error:
                if session in ends and event.at < before[ends[session]]:
                    this = asked[event.call], event.call
                    last_sync[session] = max(last_sync.get(session, this), this)
            case SessionEvent(state="connected"):
                timeouts[session] = event.timeout_ms
                local_at.pop(session, None)
                if event.served == "local":
                    local_at[session] = event.server
            case SessionEvent(state="closed"):
                last_sync.pop(session, None)  # the client may present the id later, and that does not end the session
            case SessionEvent(state="expired") if local_at.get(session, event.server) != event.server:
                last_sync.pop(session, None)
            case SessionEvent(state="expired") if session in last_sync:
                at, call = last_sync[session]
                silent_ms = (event.at - at) * scale / 1_000
                if silent_ms < timeouts.get(session, 0):
                    what = (
                        f"client {event.client}, session {session:#x} with a timeout of {timeouts[session]} ms: it was"
                        f" reported as expired at {event.at}, only {silent_ms:.0f} ms after the request of call {call},"
                        f" an answered sync, at {at}"
                    )
                    yield Broken(SILENT, what, (event,), event.at, session)
            case _:
                pass


def last_request_before(history: History, ends: Iterable[int]) -> dict[int, int]:
    """Return, for each end (a zxid), the latest request time of all writes with smaller zxids."""
    asked = {event.call: event.at for event in history.events if isinstance(event, Invoke) and is_write(event.request)}
    written = sorted(
        (event.reply.zxid, asked[event.call])
        for event in history.events
        if isinstance(event, Response)
        and event.call in asked
        and event.reply.zxid
        and event.reply.error not in WITHOUT_TRANSACTION
    )
    found, latest, place = {}, 0, 0
    for end in sorted(set(ends)):
        while place < len(written) and written[place][0] < end:
            latest = max(latest, written[place][1])
            place += 1
        found[end] = latest
    return found
