"""A session lives once, from the transaction that opens it to the one that closes it, for all clients.

Its changes lie between the two; a client that was told of its end can rely on it; an ephemeral node exists exactly as
long as its session; and a silent session is not ended before its timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case, by_change, by_event
from harness.history import Asked, Became, Change, History, Told

LIVES: Final = "a session lives from its opening to its close"
LOCAL: Final = "a local session is known to its server only"
SILENT: Final = "a silent session expires after its timeout"
EPHEMERAL: Final = "an ephemeral node exists exactly as long as its session"


def lives(case: Case) -> Iterator[Broken]:
    opened: dict[int, Change] = {}
    closed: dict[int, Change] = {}
    own = own_sessions(case)
    for change in case.history.changes:
        session = change.session
        if change.kind == "open":
            if session in opened:
                what = f"session {session:#x} is opened at zxid {change.zxid:#x} again"
                yield by_change(LIVES, change, what, opened[session])
            opened[session] = change
        elif change.kind == "close":
            closed.setdefault(session, change)
        elif change.kind in ("create", "set", "delete", "setacl", "attach") and session:
            if session not in opened and (session not in own or change.kind == "attach"):
                what = f"session {session:#x} changes {change.path} at zxid {change.zxid:#x}, and was never opened"
                yield by_change(LIVES, change, what)
            if session in closed:
                what = (
                    f"session {session:#x}: a {change.kind} {change.path} at zxid {change.zxid:#x},"
                    f" and it was closed at {closed[session].zxid:#x}"
                )
                yield by_change(LIVES, change, what, closed[session])
    yield from _as_told(case, own, opened, closed)


def own_sessions(case: Case) -> frozenset[int]:
    """Sessions that only one server may have known: no transaction need open or close them."""
    return frozenset(event.session for event in case.history.events if isinstance(event, Became) and event.served)


def local(case: Case) -> Iterator[Broken]:
    """A session that no transaction opened stays at its server: no other one can know it."""
    opened = {change.session for change in case.history.changes if change.kind == "open"}
    first: dict[int, Became] = {}
    for event in case.history.events:
        if isinstance(event, Became) and event.state == "connected" and event.session not in opened:
            before = first.setdefault(event.session, event)
            if before.server != event.server:
                what = f"welcomed at {event.at} by server {event.server}, and local to server {before.server}"
                yield by_event(LOCAL, event, what, before, event)


def _as_told(case: Case, own: frozenset[int], opened: dict[int, Change], closed: dict[int, Change]) -> Iterator[Broken]:
    over: dict[int, Became] = {}
    for event in case.history.events:
        close = closed.get(event.session)
        match event:
            case Became(state="expired" | "closed"):
                over.setdefault(event.session, event)
                if close is None and (event.session in opened or event.session not in own):
                    what = f"it was told at {event.at} that it is {event.state}, and no transaction closed it"
                    yield by_event(LIVES, event, what)
            case Became(state="connected"):
                if event.session not in opened and not event.served:
                    yield by_event(LIVES, event, f"it was connected at {event.at}, and no transaction opened it")
                if event.session in over:
                    what = f"it was connected at {event.at}, and had been {over[event.session].state}"
                    yield by_event(LIVES, event, what, over[event.session], event)
            case Told():
                yield from _reply(event, close, over.get(event.session))
            case _:
                pass


def _reply(told: Told, close: Change | None, over: Became | None) -> Iterator[Broken]:
    zxid, error = told.reply.zxid, told.reply.error
    if error == "SESSION_EXPIRED":
        if zxid and (close is None or close.zxid > zxid):
            what = f"call {told.call} was told at zxid {zxid:#x} that it has expired, and it lived"
            yield by_event(LIVES, told, what, zxid=zxid)
    elif close is not None and zxid >= close.zxid:
        what = f"call {told.call} was answered from zxid {zxid:#x}, and its session was closed at {close.zxid:#x}"
        yield by_event(LIVES, told, what, told, close, zxid=zxid)
    elif over is not None:
        what = f"call {told.call} was answered at {told.at}, and the session was {over.state} at {over.at}"
        yield by_event(LIVES, told, what, over, told, zxid=zxid)


def ephemerals(case: Case) -> Iterator[Broken]:
    """Which nodes a session owns is followed here by itself, from the creations and deletions alone."""
    owned: dict[str, Change] = {}
    alive: set[int] = set()
    for change in case.history.changes:
        match change.kind:
            case "open":
                alive.add(change.session)
            case "create" if change.owner:
                owned[change.path] = change
                if change.owner not in alive:
                    made = f"{change.path} is created at zxid {change.zxid:#x} for session {change.owner:#x}"
                    yield by_change(EPHEMERAL, change, f"{made}, which does not live", session=change.owner)
                if change.owner != change.session:
                    what = f"session {change.session:#x} created {change.path} for session {change.owner:#x}"
                    yield by_change(EPHEMERAL, change, what, session=change.owner)
            case "delete":
                owned.pop(change.path, None)
            case "close":
                alive.discard(change.session)
                yield from _closing(change, owned)
            case _:
                pass


def _closing(close: Change, owned: dict[str, Change]) -> Iterator[Broken]:
    who = f"session {close.session:#x}, closed at zxid {close.zxid:#x}"
    mine = {path: made for path, made in owned.items() if made.owner == close.session}
    for path, made in mine.items():
        if path not in close.gone:
            what = f"{who}: its {path} stayed, which was created at {made.zxid:#x}"
            yield by_change(EPHEMERAL, close, what, made)
        del owned[path]
    for path in close.gone:
        if path not in mine:
            yield by_change(EPHEMERAL, close, f"{who}: {path} went with it, and was not its own")


# -- silence -----------------------------------------------------------------------------------------------

_WRITES: Final = frozenset({"create", "set", "setacl", "delete", "multi"})


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
    before = _asked_before(history, ends.values())
    asked: dict[int, int] = {}
    heard: dict[int, tuple[int, int]] = {}
    timeouts: dict[int, int] = {}
    for event in history.events:
        session = event.session
        match event:
            case Asked() if event.request.op == "sync":
                asked[event.call] = event.at
            case Told() if event.call in asked and not event.reply.error:
                if session in ends and event.at < before[ends[session]]:
                    this = asked[event.call], event.call
                    heard[session] = max(heard.get(session, this), this)
            case Became(state="connected"):
                timeouts[session] = event.timeout_ms
            case Became(state="expired") if session in heard:
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


def _asked_before(history: History, ends: Iterable[int]) -> dict[int, int]:
    """Return, for each end, the time of the request of the last write before it."""
    asked = {
        event.call: event.at for event in history.events if isinstance(event, Asked) and event.request.op in _WRITES
    }
    written = sorted(
        (event.reply.zxid, asked[event.call])
        for event in history.events
        if isinstance(event, Told) and event.call in asked and event.reply.zxid
    )
    found, latest, place = {}, 0, 0
    for end in sorted(set(ends)):
        while place < len(written) and written[place][0] < end:
            latest = max(latest, written[place][1])
            place += 1
        found[end] = latest
    return found
