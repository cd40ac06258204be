"""Impolite clients, bursts of one kind, and what a leader keeps: each check speaks, and is silent otherwise."""

from __future__ import annotations

import pytest

from harness.checkers.oracle_state import Violation
from harness.checkers.store.sessions import LIVES
from harness.faults import Ask, Connect, Crash, Knobs, Script, Step, Vanish
from harness.history import SessionEvent
from harness.outcome import Outcome
from harness.worlds.cores.liveness import INVARIANT as LIVENESS
from harness.worlds.cores.store.machine import LEFT, SimulatedStore
from harness.worlds.cores.world import run
from zab.service.connection.request_pipeline import PipelinePause, RequestPipeline
from zab.service.local_sessions import LocalSessions
from zab.store.operations import Op
from zab.store.request_format import INTERNAL, pack_body, pack_request

LEADERLESS = (Crash(600, 700, 2, "keep"), Crash(600, 650, 3, "keep"))


def returns_to_read_only_server(seed: int, away_ms: int) -> Outcome:
    """A client has a session of a server without a leader, and presents it when there is a leader again."""
    ops = (Connect(700, 1, 1, 2_000), Ask(750, 1, (Step("get", "/a"),)), Vanish(1_000, away_ms, 1))
    knobs = Knobs(read_only_ms=20, impolite_percent=100)
    return run(Script(seed, voters=3, machine="store", length_ms=2_500, knobs=knobs, ops=ops, faults=LEADERLESS))


@pytest.mark.parametrize("seed", [6, 7])
def test_session_of_read_only_server_is_over_when_there_is_a_leader(seed: int) -> None:
    outcome = returns_to_read_only_server(seed, 600)
    assert outcome.valid, outcome.what
    assert outcome.history is not None
    states = [event.state for event in outcome.history.events if isinstance(event, SessionEvent) and event.client == 1]
    assert states == ["connected", "disconnected", "expired"]


def test_session_of_read_only_server_that_outlives_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSessions, "clear", lambda sessions: None)
    assert returns_to_read_only_server(7, 600).invariant == LIVES


def burst_of_listings() -> Outcome:
    """The burst is the last thing in the run, and one scan at a time fits behind a write."""
    parent = Ask(500, 1, (Step("create", "/a"),))
    write, listings = Ask(999, 1, (Step("set", "/a"),)), [Ask(999, 1, (Step("children", "/a"),))] * 6
    ops = (Connect(300, 1, 1), parent, write, *listings)
    return run(Script(1, voters=3, machine="store", length_ms=1_000, knobs=Knobs(scans_behind_max=1), ops=ops))


def test_burst_of_listings_behind_a_write_is_answered() -> None:
    outcome = burst_of_listings()
    assert outcome.valid, outcome.what


def test_burst_of_listings_that_stays_held_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    proceed = RequestPipeline._proceed

    def forgetful(pipeline: RequestPipeline) -> None:
        if pipeline._pause is not PipelinePause.REPLIES:
            proceed(pipeline)

    monkeypatch.setattr(RequestPipeline, "_proceed", forgetful)
    assert burst_of_listings().invariant == LIVENESS


def create_session(store: SimulatedStore, zxid: int) -> bytes:
    request = pack_request(Op.CREATE_SESSION, pack_body((1_000,)), zxid, 0, 1, b"\0\0\0\0", INTERNAL)
    return store.prepare_at(request, zxid, 1, 0)


def test_node_that_no_transaction_put_is_noticed_at_the_next_request() -> None:
    store = SimulatedStore()
    create_session(store, 1)
    store._records["/a"] = 1, None
    with pytest.raises(Violation) as violation:
        create_session(store, 2)
    assert violation.value.invariant == LEFT


def test_node_that_is_left_when_everything_is_applied_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SimulatedStore()
    txn = create_session(store, 1)
    store._outstanding.order.append((1, "/a"))
    with pytest.raises(Violation) as violation:
        store.apply(1, txn)
    assert violation.value.invariant == LEFT
