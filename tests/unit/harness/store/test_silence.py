"""Sessions that the servers end before their timeout, as far as clients can prove it."""

from __future__ import annotations

from harness.checkers.store.silence import SILENT, ended_early
from harness.history import Change, Event, History, Invoke, Reply, Request, Response, SessionEvent

MS = 1_000
TIMEOUT_MS = 400


def session_event(at_ms: int, state: str) -> SessionEvent:
    return SessionEvent(at_ms * MS, 1, 7, state, 1, TIMEOUT_MS)


def synced(asked_ms: int, told_ms: int, error: str = "", op: str = "sync") -> tuple[Event, Event]:
    asked = Invoke(asked_ms * MS, 1, 7, asked_ms, 1, Request(op, "/"))
    return asked, Response(told_ms * MS, 1, 7, asked_ms, Reply(error, zxid=3))


def written(asked_ms: int, zxid: int) -> tuple[Event, Event]:
    """Return a write of another client."""
    asked = Invoke(asked_ms * MS, 2, 8, -asked_ms, 1, Request("set", "/"))
    return asked, Response((asked_ms + 5) * MS, 2, 8, -asked_ms, Reply(zxid=zxid))


def violations(
    *events: Event, scale: float = 1.0, closed: bool = True, witness: tuple[int, int] = (1_360, 8)
) -> list[str]:
    changes = (Change(1, 7, "open"), Change(9, 7, "close")) if closed else (Change(1, 7, "open"),)
    events = (*written(*witness), *events)
    found = list(ended_early(History(events, changes), scale))
    assert all(each.invariant == SILENT for each in found)
    return [each.what for each in found]


def test_session_lives_for_its_timeout_after_an_answered_sync() -> None:
    begin = session_event(10, "connected")
    (what,) = violations(begin, *synced(1_000, 1_050), session_event(1_399, "expired"))
    assert what == (
        "client 1, session 0x7 with a timeout of 400 ms: it was reported as expired at 1399000, only 399 ms after"
        " the request of call 1000, an answered sync, at 1000000"
    )
    assert not violations(begin, *synced(1_000, 1_050), session_event(1_400, "expired"))
    assert violations(begin, *synced(1_000, 1_050), *synced(1_300, 1_350), session_event(1_450, "expired"))


def test_sync_does_not_stop_an_end_that_was_proposed_before() -> None:
    """Only a write between the sync and the end proves that the end was not proposed before the sync."""
    events = session_event(10, "connected"), *synced(1_000, 1_050), session_event(1_100, "expired")
    assert violations(*events, witness=(1_051, 8))
    assert not violations(*events, witness=(1_049, 8)), "the write was requested before the reply to the sync"
    assert not violations(*events, witness=(1_051, 10)), "the write is after the end"


def test_other_replies_do_not_extend_a_session() -> None:
    begin = session_event(10, "connected")
    assert not violations(begin, *synced(1_000, 1_050, op="get"), session_event(1_100, "expired"))
    assert not violations(begin, *synced(1_000, 1_050, error="SESSION_EXPIRED"), session_event(1_100, "expired"))
    assert not violations(begin, session_event(1_000, "disconnected"), session_event(1_100, "expired"))
    # The leader may decide on the end before it applies the reconnection, which precedes the end in the log.
    back = session_event(1_350, "connected")
    assert not violations(
        begin,
        session_event(1_200, "disconnected"),
        back,
        session_event(1_360, "disconnected"),
        session_event(1_390, "expired"),
    )
    assert not violations(begin, synced(1_000, 0)[0], session_event(1_100, "expired"))


def test_session_closed_by_its_client_or_never_closed_is_no_violation() -> None:
    begin = session_event(10, "connected")
    assert not violations(begin, *synced(1_000, 1_050), session_event(1_100, "closed"))
    assert not violations(begin, *synced(1_000, 1_050), session_event(1_100, "expired"), closed=False)


def test_clock_scale_of_the_servers_is_applied() -> None:
    begin = session_event(10, "connected")
    assert violations(begin, *synced(1_000, 1_050), session_event(1_190, "expired"), scale=2.0)
    assert not violations(begin, *synced(1_000, 1_050), session_event(1_210, "expired"), scale=2.0)


def test_session_that_its_client_closed_and_presents_later_did_not_end_early() -> None:
    begin, closed, end = session_event(10, "connected"), session_event(1_300, "closed"), session_event(1_399, "expired")
    assert violations(begin, *synced(1_000, 1_050), closed, end) == []
