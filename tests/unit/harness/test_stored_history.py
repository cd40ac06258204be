"""A history as text and as rows: all of it comes back, and what is damaged is refused with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from harness.history import (
    Change,
    History,
    Info,
    Invoke,
    Jump,
    Reply,
    Request,
    Response,
    SessionEvent,
    Stat,
    WatchFired,
)
from harness.history_json import dumps, loads
from harness.history_rows import COLUMNS, from_rows, to_rows
from harness.json_lines import HistoryError

STAT = Stat(5, 6, 5, 1, 0, 0, 0, 3, 0)
WHOLE = History(
    (
        SessionEvent(10, 1, 77, "connected", 2, 4_000),
        Invoke(20, 1, 77, 1, 2, Request("create", "/a", bytes(range(256)), mode="ephemeral", acl="auth:r", user="u1")),
        Response(30, 1, 77, 1, Reply(zxid=5, path="/a", stat=STAT)),
        Invoke(31, 1, 77, 2, 2, Request("multi", parts=(Request("check", "/a", version=0), Request("delete", "/a")))),
        Response(35, 1, 77, 2, Reply(zxid=6, parts=(Reply(), Reply("NO_NODE")))),
        Invoke(36, 1, 77, 3, 2, Request("get", "/ä\u2028", watch="once")),
        WatchFired(37, 1, 77, "deleted", "/a", -1),
        Info(40, 1, 77, 3),
    ),
    (Change(4, 77, "open"), Change(5, 77, "create", "/a", b"", owner=77), Change(6, 77, "close", gone=("/a",))),
    (Jump(2, 6),),
)


def test_history_round_trips_through_text() -> None:
    assert loads(dumps(WHOLE)) == WHOLE
    assert loads(dumps(History())) == History()
    assert len(dumps(WHOLE).splitlines()) == 1 + 8 + 3 + 1


def test_history_round_trips_through_rows_in_any_order() -> None:
    rows = to_rows(WHOLE, "seed 7")
    assert from_rows(rows[::-1]) == WHOLE
    assert from_rows(to_rows(History(jumps=()), "a")) == History(jumps=())
    for row in rows:
        assert list(row) == list(COLUMNS)
        for (kind, missing), value in zip(COLUMNS.values(), row.values(), strict=True):
            assert type(value) is kind or (missing and value is None)
    assert (rows[2]["op"], rows[2]["path"], rows[2]["session"]) == ("create", "/a", 77)
    assert (rows[3]["error"], rows[3]["zxid"]) == ("", 5)


def test_rows_of_an_older_version_are_refused() -> None:
    head, *rest = to_rows(WHOLE, "seed 7")
    head["payload"] = json.dumps({"events": 8, "changes": 3, "jumps": 1})
    with pytest.raises(
        HistoryError, match="run seed 7, row -1, history: expected version 3, not None: versions 1 and 2"
    ):
        from_rows([head, *rest])


@pytest.mark.parametrize("lost", range(13))
def test_missing_row_is_refused(lost: int) -> None:
    rows = to_rows(WHOLE, "seed 7")
    with pytest.raises(HistoryError, match="seed 7|one run"):
        from_rows([row for at, row in enumerate(rows) if at != lost])
    with pytest.raises(HistoryError, match="one run"):
        from_rows([*rows, *to_rows(WHOLE, "seed 8")])


@pytest.mark.parametrize("lost", range(13))
def test_missing_line_is_refused(lost: int) -> None:
    lines = dumps(WHOLE).splitlines()
    del lines[lost]
    with pytest.raises(HistoryError, match="line 1"):
        loads("\n".join(lines))


@pytest.mark.parametrize(
    ("line", "damage", "place"),
    [
        (0, '{"history": 4}', "line 1, history: expected version 3, not 4"),
        (0, '{"history": 1}', "line 1, history: expected version 3, not 1: versions 1 and 2"),
        (0, '{"history": 3, "events": "8"}', "line 1, events"),
        (1, "[]", "line 2: expected an object"),
        (1, '{"kind": "SessionEvent"', "line 2, column 24: no JSON"),
        (1, '{"kind": "Sneezed"}', "line 2, kind: 'Sneezed' is none of Invoke"),
        (1, json.dumps({"kind": "SessionEvent", "at": 1}), "line 2, client: missing"),
        (2, json.dumps({"kind": "Info", "at": "1", "client": 1, "session": 1, "call": 1}), "line 3, at: expected int"),
        (2, json.dumps({"kind": "Jump", "server": 1, "zxid": 1, "x": 1}), "line 3, x: unknown"),
        (2, json.dumps({"kind": "Change", "zxid": 1, "session": 1, "change": "eat"}), "line 3, kind: 'eat' is none"),
        (2, json.dumps({"kind": "Change", "zxid": 1, "session": 1, "change": "set", "data": "\u0100"}), "line 3, data"),
    ],
)
def test_damaged_line_is_refused_with_the_place(line: int, damage: str, place: str) -> None:
    lines = dumps(WHOLE).splitlines()
    lines[line] = damage
    with pytest.raises(HistoryError, match=place):
        loads("\n".join(lines))


def test_mixed_kinds_and_nested_multis_are_refused() -> None:
    lines = dumps(WHOLE).splitlines()
    with pytest.raises(HistoryError, match="mixed"):
        loads("\n".join((lines[0], *lines[:0:-1])))
    inner = Request("multi", parts=(Request("delete", "/a"),))
    nested = History((Invoke(1, 1, 1, 1, 1, Request("multi", parts=(inner,))),))
    with pytest.raises(HistoryError, match="line 2, request, parts\\[0\\], parts: a part of a multi has no parts"):
        loads(dumps(nested))


@pytest.mark.parametrize(
    ("at", "what", "message"),
    [
        (0, {"client": -1}, "line 2, client: -1 is negative"),
        (0, {"at": -1}, "line 2, at: -1 is before 0; times of client 1 must ascend"),
        (2, {"at": 19}, "line 4, at: 19 is before 20; times of client 1 must ascend"),
        (2, {"at": 10**15}, f"line 5, at: 31 is before {10**15}; times of client 1 must ascend"),
        (2, {"at": 10**30}, f"line 4, at: expected a number of 64 bits, not {10**30}"),
        (2, {"session": -1}, "line 4, session: call 1 belongs to session 77, not -1"),
        (2, {"client": 2}, "line 4, client: call 1 belongs to client 1, not 2"),
        (7, {"session": 78}, "line 9, session: call 3 belongs to session 77, not 78"),
        (3, {"call": 1}, "line 5, call: call 1 is invoked twice"),
    ],
)
def test_impossible_events_are_refused(at: int, what: dict[str, int], message: str) -> None:
    events: list[Any] = list(WHOLE.events)
    events[at] = evolve(events[at], **what)
    with pytest.raises(HistoryError) as caught:
        loads(dumps(evolve(WHOLE, events=tuple(events))))
    assert str(caught.value) == message


def test_record_is_flat() -> None:
    with pytest.raises(HistoryError, match="line 1: lists are nested too deeply"):
        loads("[" * 100_000)


@pytest.mark.parametrize(
    ("at", "what", "message"),
    [
        (1, {"path": "a"}, "line 11, path: 'a' does not begin with /"),
        (1, {"path": ""}, "line 11, path: '' does not begin with /"),
        (1, {"part": -1}, "line 11, part: -1 is negative"),
        (1, {"owner": 1 << 63}, f"line 11, owner: expected a number of 64 bits, not {1 << 63}"),
        (2, {"gone": ("/a", "b")}, "line 12, gone[1]: 'b' does not begin with /"),
    ],
)
def test_impossible_changes_are_refused(at: int, what: dict[str, Any], message: str) -> None:
    changes = list(WHOLE.changes)
    changes[at] = evolve(changes[at], **what)
    history = evolve(WHOLE, changes=tuple(changes))
    with pytest.raises(HistoryError) as caught:
        loads(dumps(history))
    assert str(caught.value) == message
    with pytest.raises(HistoryError, match="run seed 7, row "):
        from_rows(to_rows(history, "seed 7"))
