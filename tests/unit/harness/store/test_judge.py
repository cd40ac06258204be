"""The verdict on a history of the store, its proof, and the command that prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from harness.checkers import linear
from harness.checkers.linear.verify import wrong_with_order
from harness.checkers.store import LINEARIZABLE, judge
from harness.checkers.store.case import Case
from harness.checkers.store.linearize import operations
from harness.cli import main
from harness.history import Change, History, Invoke, Reply, Request, Response, SessionEvent, Stat
from harness.history_json import dumps, loads
from tests.histories.corrupt import wrong_data
from tests.histories.ensemble import legal


@pytest.mark.parametrize("seed", range(20))
def test_legal_history_is_proved_by_zxids_and_by_search(seed: int) -> None:
    history = legal(seed, steps=100)
    verdict = judge(history)
    assert isinstance(verdict.linear, linear.Legal)
    assert verdict.valid
    assert verdict.linear.by == "certificate"
    made = operations(Case.of(history))
    model = linear.Znodes.of(made.operations)
    assert wrong_with_order(made, model, verdict.linear.order) is None

    searched = linear.check(linear.History(tuple(evolve(op, zxid=None) for op in made.operations)), model)
    assert isinstance(searched, linear.Legal)
    assert searched.by == "search"


def stat(zxid: int, version: int, changed: int) -> Stat:
    return Stat(zxid, changed, zxid, version, 0, 0, 0, 1, 0)


def synced_read(seen: bytes, version: int) -> History:
    """Client 1 writes 1, then 2, and gets both replies. Client 2 syncs and reads; its replies have no zxid."""
    return History(
        (
            SessionEvent(1, 1, 11, "connected", 1, 4_000),
            SessionEvent(2, 2, 22, "connected", 2, 4_000),
            Invoke(10, 1, 11, 1, 1, Request("create", "/x", b"1")),
            Response(20, 1, 11, 1, Reply(zxid=3, path="/x")),
            Invoke(30, 1, 11, 2, 1, Request("set", "/x", b"2")),
            Response(40, 1, 11, 2, Reply(zxid=4, stat=stat(3, 1, 4))),
            Invoke(50, 2, 22, 3, 2, Request("sync", "/x")),
            Response(55, 2, 22, 3, Reply(path="/x")),
            Invoke(60, 2, 22, 4, 2, Request("get", "/x")),
            Response(70, 2, 22, 4, Reply(data=seen, stat=stat(3, version, 3 + version))),
        ),
        (
            Change(1, 11, "open"),
            Change(2, 22, "open"),
            Change(3, 11, "create", "/x", b"1"),
            Change(4, 11, "set", "/x", b"2", 1),
        ),
        (),
    )


def test_stale_synced_read_is_not_linearizable() -> None:
    assert judge(synced_read(b"2", 1)).valid
    verdict = judge(synced_read(b"1", 0))
    assert verdict.store.valid  # an unsynced read may be stale
    assert not verdict.valid
    assert verdict.invariant == LINEARIZABLE
    assert isinstance(verdict.linear, linear.Illegal)
    assert {op.id for op in verdict.linear.core} == {1, 2, 4}


def reconnected(watches: tuple[tuple[str, str], ...] | None) -> History:
    """Client 1 watches /x, disconnects, and reconnects after a change of /x. It receives no event."""
    return History(
        (
            SessionEvent(1, 1, 11, "connected", 1, 4_000),
            SessionEvent(2, 2, 22, "connected", 2, 4_000),
            Invoke(10, 1, 11, 1, 1, Request("exists", "/x", watch="once")),
            Response(20, 1, 11, 1, Reply("NO_NODE", zxid=2)),
            SessionEvent(30, 1, 11, "disconnected", 1, 4_000),
            Invoke(40, 2, 22, 2, 2, Request("create", "/x", b"1")),
            Response(50, 2, 22, 2, Reply(zxid=3, path="/x")),
            SessionEvent(60, 1, 11, "connected", 1, 4_000, watches),
            Invoke(70, 1, 11, 3, 1, Request("get", "/x")),
            Response(80, 1, 11, 3, Reply(zxid=4, data=b"1", stat=stat(3, 0, 3))),
        ),
        (Change(1, 11, "open"), Change(2, 22, "open"), Change(3, 22, "create", "/x", b"1"), Change(4, 11, "attach")),
        (),
    )


@pytest.mark.parametrize("watches", [None, (("exist", "/x"),)])
def test_reconnected_client_must_receive_events_of_its_watches(watches: tuple[tuple[str, str], ...] | None) -> None:
    assert judge(reconnected(watches)).invariant == "no watch event is missing or late"
    assert loads(dumps(reconnected(watches))) == reconnected(watches)


def test_reconnected_client_without_watches_needs_no_event() -> None:
    verdict = judge(reconnected(()))
    assert verdict.valid, verdict.what


def test_too_small_budget_gives_unknown() -> None:
    verdict = judge(synced_read(b"2", 1), budget=1)
    assert verdict.unknown
    assert not verdict.valid
    assert "unknown after" in verdict.what


def test_check_command_prints_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history"
    file.write_text(dumps(synced_read(b"2", 1)))
    assert main(["check", str(file), "--order"]) == 0
    assert "order: 1 2 4" in capsys.readouterr().out
    assert main(["check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["order"] == [1, 2, 4]
    assert main(["check", str(file), "--budget", "1"]) == 1
    assert "unknown" in capsys.readouterr().out


def test_check_command_prints_the_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from random import Random

    spoilt = next(made for seed in range(20) if (made := wrong_data(Random(seed), legal(seed))))
    file = tmp_path / "history"
    file.write_text(dumps(spoilt))
    assert main(["check", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("BROKEN  a read shows the state of its zxid: client ")
    assert "another's" in out
    assert main(["check", str(file), "--json"]) == 1
    made = json.loads(capsys.readouterr().out)
    assert made["invariant"] == "a read shows the state of its zxid"
    assert made["broken"][0]["evidence"][0]["kind"] == "Invoke"


def test_check_command_refuses_an_invalid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history"
    assert main(["check", str(file)]) == 2
    file.write_text(dumps(synced_read(b"2", 1))[:-30])
    assert main(["check", str(file)]) == 2
    assert f"{file}: line 15, column" in capsys.readouterr().err
