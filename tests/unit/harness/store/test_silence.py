"""A session that ends too early, as its client can prove it; and one of which nothing can be proved."""

from __future__ import annotations

from harness.checkers.store.silence import SILENT, ended_early
from harness.history import Change, Event, History, Invoke, Reply, Request, Response, SessionEvent

MS = 1_000
TIMEOUT_MS = 400


def became(at_ms: int, state: str) -> SessionEvent:
    return SessionEvent(at_ms * MS, 1, 7, state, 1, TIMEOUT_MS)


def synced(asked_ms: int, told_ms: int, error: str = "", op: str = "sync") -> tuple[Event, Event]:
    asked = Invoke(asked_ms * MS, 1, 7, asked_ms, 1, Request(op, "/"))
    return asked, Response(told_ms * MS, 1, 7, asked_ms, Reply(error, zxid=3))


def written(asked_ms: int, zxid: int) -> tuple[Event, Event]:
    """By somebody else."""
    asked = Invoke(asked_ms * MS, 2, 8, -asked_ms, 1, Request("set", "/"))
    return asked, Response((asked_ms + 5) * MS, 2, 8, -asked_ms, Reply(zxid=zxid))


def judged(*events: Event, scale: float = 1.0, closed: bool = True, witness: tuple[int, int] = (1_360, 8)) -> list[str]:
    changes = (Change(1, 7, "open"), Change(9, 7, "close")) if closed else (Change(1, 7, "open"),)
    events = (*written(*witness), *events)
    found = list(ended_early(History(events, changes), scale))
    assert all(each.invariant == SILENT for each in found)
    return [each.what for each in found]


def test_who_was_heard_by_the_leader_has_its_time_from_then_on() -> None:
    begin = became(10, "connected")
    (what,) = judged(begin, *synced(1_000, 1_050), became(1_399, "expired"))
    assert what == (
        "client 1, session 0x7 of 400 ms: it was told at 1399000 that it has expired, 399 ms after"
        " call 1000, a sync that was answered, was asked at 1000000"
    )
    assert not judged(begin, *synced(1_000, 1_050), became(1_400, "expired"))
    assert judged(begin, *synced(1_000, 1_050), *synced(1_300, 1_350), became(1_450, "expired"))


def test_an_end_that_was_under_way_already_is_not_held_up_by_a_sync() -> None:
    """Only who sees a write between them, in the history's order, knows that it was not."""
    story = became(10, "connected"), *synced(1_000, 1_050), became(1_100, "expired")
    assert judged(*story, witness=(1_051, 8))
    assert not judged(*story, witness=(1_049, 8)), "it was asked before the answer to the sync"
    assert not judged(*story, witness=(1_051, 10)), "it stands behind the end"


def test_other_answers_prove_nothing() -> None:
    begin = became(10, "connected")
    assert not judged(begin, *synced(1_000, 1_050, op="get"), became(1_100, "expired"))
    assert not judged(begin, *synced(1_000, 1_050, error="SESSION_EXPIRED"), became(1_100, "expired"))
    assert not judged(begin, became(1_000, "disconnected"), became(1_100, "expired"))
    # The leader decides, and has not yet applied what takes the session up: its end stands behind that in the log.
    back = became(1_350, "connected")
    assert not judged(
        begin, became(1_200, "disconnected"), back, became(1_360, "disconnected"), became(1_390, "expired")
    )
    assert not judged(begin, synced(1_000, 0)[0], became(1_100, "expired"))


def test_who_wanted_it_so_or_was_never_closed_has_no_reason_to_complain() -> None:
    begin = became(10, "connected")
    assert not judged(begin, *synced(1_000, 1_050), became(1_100, "closed"))
    assert not judged(begin, *synced(1_000, 1_050), became(1_100, "expired"), closed=False)


def test_where_servers_have_more_time_than_the_script() -> None:
    begin = became(10, "connected")
    assert judged(begin, *synced(1_000, 1_050), became(1_190, "expired"), scale=2.0)
    assert not judged(begin, *synced(1_000, 1_050), became(1_210, "expired"), scale=2.0)


def test_session_that_its_client_closed_and_presents_later_did_not_end_early() -> None:
    begin, closed, end = became(10, "connected"), became(1_300, "closed"), became(1_399, "expired")
    assert judged(begin, *synced(1_000, 1_050), closed, end) == []
