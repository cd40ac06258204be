"""A session lives once, from the transaction that opens it to the one that closes it, for all clients.

The changes of the session lie between the two. If a client receives the end of its session, the session is over. An
ephemeral node exists exactly as long as its session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.broken import Broken
from harness.checkers.store.case import Case, by_change, by_event
from harness.checkers.store.silence import last_request_before
from harness.history import Change, Response, SessionEvent

LIVES: Final = "a session lives from its opening to its close"
LOCAL: Final = "a local session is known to its server only"
EPHEMERAL: Final = "an ephemeral node exists exactly as long as its session"


def lives(case: Case) -> Iterator[Broken]:
    opened: dict[int, Change] = {}
    closed: dict[int, Change] = {}
    own = own_sessions(case)
    for change in case.history.changes:
        session = change.session
        if change.kind == "open":
            if session in opened:
                what = f"session {session:#x} is opened again at zxid {change.zxid:#x}"
                yield by_change(LIVES, change, what, opened[session])
            opened[session] = change
        elif change.kind == "close":
            closed.setdefault(session, change)
        elif change.kind in ("create", "set", "delete", "setacl", "attach") and session:
            if session not in opened and (session not in own or change.kind == "attach"):
                what = f"session {session:#x} changes {change.path} at zxid {change.zxid:#x}, but was never opened"
                yield by_change(LIVES, change, what)
            if session in closed:
                what = (
                    f"session {session:#x}: {change.kind} {change.path} at zxid {change.zxid:#x},"
                    f" but it was closed at {closed[session].zxid:#x}"
                )
                yield by_change(LIVES, change, what, closed[session])
    yield from _as_reported(case, own, opened, closed)


def own_sessions(case: Case) -> frozenset[int]:
    """Return the local and read-only sessions. Only one server may know them; no transaction need open or close
    them."""
    return frozenset(event.session for event in case.history.events if isinstance(event, SessionEvent) and event.served)


def local(case: Case) -> Iterator[Broken]:
    """Check that a session without an opening transaction stays at its server: no other server can know it."""
    opened = {change.session for change in case.history.changes if change.kind == "open"}
    first: dict[int, SessionEvent] = {}
    for event in case.history.events:
        if isinstance(event, SessionEvent) and event.state == "connected" and event.session not in opened:
            before = first.setdefault(event.session, event)
            if before.server != event.server:
                what = f"server {event.server} accepted it at {event.at}, but it is local to server {before.server}"
                yield by_event(LOCAL, event, what, before, event)


def _as_reported(
    case: Case, own: frozenset[int], opened: dict[int, Change], closed: dict[int, Change]
) -> Iterator[Broken]:
    """Check each session as its client sees it.

    A server that never accepted a local session may report it as expired. The session is not over then: its own server
    may still have it, and may upgrade it later.

    A read-only server has no leader, so it may not have applied the close of a session. Then it still accepts the
    session after another server has reported it as expired, and answers from its state before the close.
    """
    over: dict[int, SessionEvent] = {}
    first: dict[int, int] = {}
    """The first server that accepted each session."""
    moved: set[int] = set()
    """The sessions that another server has accepted since then, so that the ensemble knows them."""
    lagging: set[int] = set()
    """The closed sessions that are connected to a read-only server."""
    ends = [closed[session].zxid for session in _reported_expired(case) & closed.keys()]
    asked_before = last_request_before(case.history, ends) if ends else {}
    for event in case.history.events:
        close = closed.get(event.session)
        if isinstance(event, SessionEvent):
            lagging.discard(event.session)
        match event:
            case SessionEvent(state="expired" | "closed"):
                if event.session in own and event.session not in moved and event.server != first.get(event.session):
                    continue
                over.setdefault(event.session, event)
                if event.state == "expired" and event.session not in own and close is not None:
                    yield from _reported_early(event, close, asked_before[close.zxid])
                if close is None and (event.session in opened or event.session not in own):
                    what = f"it was reported as {event.state} at {event.at}, but no transaction closed it"
                    yield by_event(LIVES, event, what)
            case SessionEvent(state="connected"):
                if first.setdefault(event.session, event.server) != event.server:
                    moved.add(event.session)
                if event.session not in opened and not event.served:
                    yield by_event(LIVES, event, f"it was connected at {event.at}, but no transaction opened it")
                if event.session in over and event.served == "read-only" and close is not None:
                    lagging.add(event.session)
                elif event.session in over:
                    what = f"it was connected at {event.at}, but had been reported as {over[event.session].state}"
                    yield by_event(LIVES, event, what, over[event.session], event)
            case Response():
                yield from _reply(event, close, None if event.session in lagging else over.get(event.session))
            case _:
                pass


def _reported_expired(case: Case) -> set[int]:
    return {
        event.session for event in case.history.events if isinstance(event, SessionEvent) and event.state == "expired"
    }


def _reported_early(reported: SessionEvent, close: Change, asked: int) -> Iterator[Broken]:
    """Check that the session was closed when the client received the expiry: no later write precedes the close."""
    if asked > reported.at:
        what = f"it was reported as expired at {reported.at}, but a write that was requested at {asked}"
        yield by_event(LIVES, reported, f"{what} came before its close at zxid {close.zxid:#x}", reported, close)


def _reply(response: Response, close: Change | None, over: SessionEvent | None) -> Iterator[Broken]:
    zxid, error = response.reply.zxid, response.reply.error
    if error == "SESSION_EXPIRED":
        if zxid and (close is None or close.zxid > zxid):
            what = f"the reply to call {response.call} reports at zxid {zxid:#x} that it has expired, but it was open"
            yield by_event(LIVES, response, what, zxid=zxid)
    elif close is not None and zxid >= close.zxid:
        what = f"the reply to call {response.call} shows zxid {zxid:#x}, but its session was closed at {close.zxid:#x}"
        yield by_event(LIVES, response, what, response, close, zxid=zxid)
    elif over is not None:
        what = f"call {response.call} was answered at {response.at}, but the session was {over.state} at {over.at}"
        yield by_event(LIVES, response, what, over, response, zxid=zxid)


def ephemerals(case: Case) -> Iterator[Broken]:
    """Check ephemeral nodes. The owners come from the creations and deletions alone, without the replayed tree."""
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
                    yield by_change(EPHEMERAL, change, f"{made}, which is not open", session=change.owner)
                if change.owner != change.session:
                    what = f"session {change.session:#x} creates {change.path} for session {change.owner:#x}"
                    yield by_change(EPHEMERAL, change, what, session=change.owner)
            case "delete":
                owned.pop(change.path, None)
            case "close":
                alive.discard(change.session)
                yield from _closing(change, owned)
            case _:
                pass


def _closing(close: Change, owned: dict[str, Change]) -> Iterator[Broken]:
    closing = f"session {close.session:#x}, closed at zxid {close.zxid:#x}"
    mine = {path: made for path, made in owned.items() if made.owner == close.session}
    for path, made in mine.items():
        if path not in close.gone:
            what = f"{closing}: its node {path}, created at {made.zxid:#x}, was not deleted"
            yield by_change(EPHEMERAL, close, what, made)
        del owned[path]
    for path in close.gone:
        if path not in mine:
            yield by_change(EPHEMERAL, close, f"{closing}: {path} was deleted, but does not belong to it")
