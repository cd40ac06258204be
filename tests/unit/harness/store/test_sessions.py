"""Reports of the end of a session to its client."""

from __future__ import annotations

from harness.checkers.store.case import Case
from harness.checkers.store.sessions import LIVES, lives
from harness.history import Change, Event, History, Invoke, Reply, Request, Response, SessionEvent

OPENED, CLOSED = Change(1, 5, "open"), Change(9, 5, "close")


def broken(events: tuple[Event, ...], *changes: Change) -> list[str]:
    return [each.invariant for each in lives(Case.of(History(events, changes)))]


def expired(at: int, server: int = 1, served: str = "") -> tuple[SessionEvent, SessionEvent]:
    welcome = SessionEvent(10, 1, 5, "connected", 1, 1_000, served=served)
    return welcome, SessionEvent(at, 1, 5, "expired", server, 1_000)


def write(at: int, zxid: int) -> tuple[Invoke, Response]:
    """Return a refused write of another session; its transaction changes nothing."""
    return Invoke(at, 2, 6, 1, 1, Request("delete", "/a")), Response(at + 5, 2, 6, 1, Reply("NO_NODE", zxid))


def test_expiry_that_is_reported_before_the_close_is_a_violation() -> None:
    other = Change(1, 6, "open")
    assert broken((*expired(100), *write(150, 8)), OPENED, other, CLOSED) == [LIVES]
    assert broken((*expired(100), *write(90, 8)), OPENED, other, CLOSED) == []
    assert broken((*expired(100), *write(150, 10)), OPENED, other, CLOSED) == []


def test_local_session_is_unknown_at_other_servers_and_lives_on() -> None:
    back = SessionEvent(200, 1, 5, "connected", 1, 1_000, served="local")
    assert broken((*expired(100, 2, "local"), back)) == []
    assert broken((*expired(100, 1, "local"), back)) == [LIVES]
    assert broken((*expired(100, 2, "local"), back), Change(9, 5, "open")) == []
