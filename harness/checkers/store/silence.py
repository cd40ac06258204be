"""A silent session expires after its timeout, as far as clients can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import WITHOUT_TRANSACTION, is_write
from harness.history import History, Invoke, Response, SessionEvent

SILENT: Final = "a silent session expires after its timeout"


def ended_early(history: History, scale: float = 1.0) -> Iterator[Broken]:
    """Check that no session is ended early. `scale`: the microseconds of a server's clock in one of the history.

    Clients know of one moment for which the leader has no excuse: an answered sync has reached the leader itself, not
    before its request. A session that is told of its expiry sooner than its timeout after the newest of these was ended
    early, unless its end was already under way: an end that waits for disks and for a quorum stops no sync. That is
    excluded if a write before the end in the history was requested, by any client, after the reply to the sync.

    Pings and other replies prove nothing: a server may not have reported them to the leader. Nor does a reconnection:
    the leader may decide on the end before it has applied the reconnection. All clocks must go at one rate.
    """
    ends = {change.session: change.zxid for change in history.changes if change.kind == "close"}
    before = last_request_before(history, ends.values())
    asked: dict[int, int] = {}
    heard: dict[int, tuple[int, int]] = {}
    timeouts: dict[int, int] = {}
    for event in history.events:
        session = event.session
        match event:
            case Invoke() if event.request.op == "sync":
                asked[event.call] = event.at
            case Response() if event.call in asked and not event.reply.error:
                if session in ends and event.at < before[ends[session]]:
                    this = asked[event.call], event.call
                    heard[session] = max(heard.get(session, this), this)
            case SessionEvent(state="connected"):
                timeouts[session] = event.timeout_ms
            case SessionEvent(state="closed"):
                heard.pop(session, None)  # the client may present it later, and it does not end then
            case SessionEvent(state="expired") if session in heard:
                at, call = heard[session]
                silent_ms = (event.at - at) * scale / 1_000
                if silent_ms < timeouts.get(session, 0):
                    what = (
                        f"client {event.client}, session {session:#x} of {timeouts[session]} ms: it was told at"
                        f" {event.at} that it has expired, {silent_ms:.0f} ms after call {call}, a sync that was"
                        f" answered, was asked at {at}"
                    )
                    yield Broken(SILENT, what, (event,), event.at, session)
            case _:
                pass


def last_request_before(history: History, ends: Iterable[int]) -> dict[int, int]:
    """Return, for each end, the time of the request of the last write before it."""
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
