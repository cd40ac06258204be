"""The store in the cores world: what its clients see, that a run is a function of its script, and what is noticed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest
from attrs import evolve

from harness.draw import script_from_seed
from harness.faults import Ask, Connect, Crash, Fault, Leave, Op, Partition, Script, Step, Timing, Vanish
from harness.history import History, Info, Invoke, Reply, Response, SessionEvent, WatchFired
from harness.outcome import Outcome
from harness.profiles import BY_NAME
from harness.script.constants import Drawn
from harness.worlds.cores.store.checks import CONFIGURED, RECONFIGURED
from harness.worlds.cores.store.client_port import SimulatedClientPort, SimulatedShell
from harness.worlds.cores.world import WORLD, run
from tests.simulation.elsewhere import printed
from zab.client.session_setup import SessionSetup
from zab.service.config_node import ConfigNode
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.ports import Done, EventFrame
from zab.service.connection.request_pipeline import RequestPipeline
from zab.store.operations import Op as StoreOp
from zab.store.request_format import HEAD
from zab.wire.client.connect import ConnectRequest

SEEDS = (*range(12), 28, 33, 47, 54)  # in the last four, sessions expire


def store_script(seed: int) -> Script:
    return script_from_seed(seed, voters=5, ops=200, machine="store")


def told(outcome: Outcome) -> History:
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    assert outcome.history is not None
    return outcome.history


def replies(history: History, client: int = 1) -> list[Reply]:
    return [event.reply for event in history.events if isinstance(event, Response) and event.client == client]


def states(history: History, client: int = 1) -> list[str]:
    return [event.state for event in history.events if isinstance(event, SessionEvent) and event.client == client]


def script(*ops: Op, faults: tuple[Fault, ...] = (), length_ms: int = 1_500) -> Script:
    return Script(1, voters=3, machine="store", ops=ops, faults=faults, length_ms=length_ms)


def ask(at: int, *steps: Step, client: int = 1) -> Ask:
    return Ask(at, client, steps)


# -- what clients see ----------------------------------------------------------------------------------


def test_last_reader_has_many_requests_in_flight_whatever_other_clients_have() -> None:
    nodes = [
        ask(400, Step("create", "/n", mode="sequential"), client=client) for client in range(1, 9) for _ in range(60)
    ]
    clients = [Connect(300, client, 1) for client in range(1, 9)]
    few = (Drawn("client_requests_max", 2),)
    slow = Timing(delay_us_min=20_000, delay_us_max=21_000)
    history = told(run(evolve(script(*clients, *nodes), constants=few, timing=slow)))
    assert len(replies(history, 9)) > 2 * len(nodes)


def test_created_node_is_visible_at_other_servers() -> None:
    history = told(
        run(
            script(
                Connect(300, 1, 1),
                ask(400, Step("create", "/a", size=4)),
                Connect(300, 2, 2),
                ask(600, Step("sync", "/"), client=2),
                ask(601, Step("get", "/a"), client=2),
                ask(602, Step("set", "/a", version=0), client=2),
                ask(603, Step("set", "/a", version=0), client=2),
            )
        )
    )
    (created,) = replies(history)
    sync, got, written, refused = replies(history, 2)
    assert created.path == "/a"
    assert sync.error == ""
    assert got.data is not None
    assert got.stat is not None
    assert (len(got.data), got.stat.czxid) == (4, created.zxid)
    assert written.stat is not None
    assert (written.stat.version, refused.error) == (1, "BAD_VERSION")
    kinds = [change.kind for change in history.changes]
    assert kinds.count("create") == kinds.count("set") == 1


def test_several_steps_happen_together_or_not_at_all() -> None:
    history = told(
        run(
            script(
                Connect(300),
                ask(400, Step("create", "/a"), Step("create", "/a/b")),
                ask(401, Step("set", "/a"), Step("delete", "/nobody")),
                ask(402, Step("get", "/a")),
            )
        )
    )
    done, refused, got = replies(history)
    assert [part.path for part in done.parts] == ["/a", "/a/b"]
    assert refused.parts[1].error == "NO_NODE"
    assert got.stat is not None
    assert got.stat.version == 0


def test_an_event_comes_before_the_reply_that_shows_its_change() -> None:
    history = told(
        run(
            script(
                Connect(300),
                ask(400, Step("exists", "/a", watch="once")),
                ask(500, Step("create", "/a"), client=2),
                ask(600, Step("get", "/a")),
            )
        )
    )
    seen = [event for event in history.events if event.client == 1 and isinstance(event, WatchFired | Response)]
    assert [type(event).__name__ for event in seen] == ["Response", "WatchFired", "Response"]
    assert isinstance(seen[1], WatchFired)
    assert (seen[1].event, seen[1].path) == ("created", "/a")


def test_a_session_outlives_its_server_and_takes_its_watches_along() -> None:
    history = told(
        run(
            script(
                Connect(300, 1, 3),
                ask(400, Step("create", "/a", mode="ephemeral")),
                ask(410, Step("watch", "/a", watch="persistent")),
                ask(900, Step("set", "/a"), client=2),
                faults=(Crash(500, server=3, down_ms=2_000),),
            )
        )
    )
    assert states(history) == ["connected", "disconnected", "connected"]
    assert len({event.session for event in history.events if event.client == 1 and event.session}) == 1
    assert [event.event for event in history.events if isinstance(event, WatchFired)] == ["data"]


def test_vanished_client_loses_session_and_ephemerals() -> None:
    history = told(
        run(
            script(
                Connect(300, timeout_ms=300),
                ask(400, Step("create", "/here", mode="ephemeral")),
                ask(450, Step("exists", "/here", watch="once"), client=2),
                Vanish(500, 900),
            )
        )
    )
    assert states(history) == ["connected", "disconnected", "expired"]
    assert [change.gone for change in history.changes if change.kind == "close"] == [("/here",)]
    assert [event.event for event in history.events if isinstance(event, WatchFired)] == ["deleted"]


def test_client_opens_new_session_after_close() -> None:
    history = told(run(script(Connect(300), Leave(500), ask(800, Step("get", "/")))))
    assert states(history) == ["connected", "closed", "connected"]
    assert (
        len({event.session for event in history.events if isinstance(event, SessionEvent) and event.client == 1}) == 2
    )


def test_a_request_that_a_leader_took_with_it_is_lost_or_done_once() -> None:
    asked = [ask(500 + number, Step("create", "/n", mode="sequential")) for number in range(40)]
    faults = (Partition(520, 400, groups=((1, 2),)), Crash(525, down_ms=300))
    history = told(run(script(Connect(300, 1, 1), *asked, faults=faults)))
    created = [change.path for change in history.changes if change.kind == "create"]
    assert len(created) == len(set(created))
    lost = sum(isinstance(event, Info) and event.client == 1 for event in history.events)
    assert len(created) <= len(replies(history)) + lost


def test_at_the_end_everything_is_read_by_a_fresh_session() -> None:
    history = told(run(script(ask(400, Step("create", "/a")), ask(401, Step("create", "/a/b")))))
    reader = max(event.client for event in history.events)
    read = {event.request.path for event in history.events if isinstance(event, Invoke) and event.client == reader}
    assert read == {"/", "/a", "/a/b"}


# -- many ----------------------------------------------------------------------------------------------


@cache
def outcome_of(seed: int) -> Outcome:
    return run(store_script(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_promises_hold(seed: int) -> None:
    told(outcome_of(seed))


def test_runs_exercise_the_invariants() -> None:
    """Else the promises would hold because nothing happens."""
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        history = told(outcome_of(seed))
        counts.update(type(event).__name__ for event in history.events)
        counts.update(event.state for event in history.events if isinstance(event, SessionEvent))
        counts.update(change.kind for change in history.changes)
    for what in (
        "Response",
        "Info",
        "WatchFired",
        "disconnected",
        "expired",
        "closed",
        "attach",
        "close",
        "create",
        "error",
    ):
        assert counts[what] >= 3, counts


PROGRAM = """
from harness.worlds.cores.world import run
from tests.simulation.test_store import store_script
print(run(store_script(1), trace=True).trace.hash())
"""


def test_equal_in_another_process_under_another_hash_seed() -> None:
    trace = run(store_script(1), trace=True).trace
    assert trace is not None
    assert printed(PROGRAM, "4242" if os.environ.get("PYTHONHASHSEED") != "4242" else "1") == [trace.hash()]


def test_items_of_other_machines_are_left_out() -> None:
    drawn = store_script(1)
    assert not WORLD.playable(drawn).skipped
    assert WORLD.playable(Script(1, ops=drawn.ops)).skipped == ("Ask", "Connect", "Leave", "Vanish")


# -- mistakes that are noticed -------------------------------------------------------------------------


def noticed() -> str:
    for seed in range(30):
        outcome = run(store_script(seed))
        if not outcome.valid:
            return f"{outcome.invariant}: {outcome.what}"
    return "nothing"


def test_a_reply_before_its_transaction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SimulatedClientPort.post_many

    def hasty(self: SimulatedClientPort, requests: Sequence[bytes], done: Done) -> None:
        pipeline = getattr(done, "__self__", None)
        op = HEAD.unpack_from(requests[0])[3]
        alone = isinstance(pipeline, RequestPipeline) and len(pipeline.replies) == len(requests) == 1
        if not alone or op != StoreOp.DELETE:
            honest(self, requests, done)
            return
        honest(self, requests, lambda result, error: None)
        done((self.clients.machine.zxid + 1, 0, None, None, ()), None)

    monkeypatch.setattr(SimulatedClientPort, "post_many", hasty)
    assert noticed().startswith(("the reply to a write", "acknowledged writes", "a session never sees an older state"))


def test_a_session_that_a_server_ends_on_its_own_account_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ClientConnection.established

    def hard(self: ClientConnection, asked: ConnectRequest, session: int, timeout_ms: int, read_only: bool) -> None:
        if asked.session:
            self.expired(asked)
        else:
            honest(self, asked, session, timeout_ms, read_only)

    monkeypatch.setattr(ClientConnection, "established", hard)
    assert noticed().startswith(("a session lives from its opening", "a sync reaches", "a write takes effect after"))


def test_an_event_behind_the_reply_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    late: dict[ClientConnection, list[bytes]] = {}
    flush = SimulatedShell.flush

    def notify(self: ClientConnection, change: EventFrame) -> None:
        late.setdefault(self, []).append(change.frame)
        self._shell.output_ready()

    def flush_late(self: SimulatedShell) -> None:
        for frame in late.pop(self.connection, ()):
            self.connection.send(frame)
        flush(self)

    monkeypatch.setattr(ClientConnection, "notify", notify)
    monkeypatch.setattr(SimulatedShell, "flush", flush_late)
    assert noticed().startswith("no watch event is missing or late")


def test_client_that_does_not_set_its_watches_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionSetup, "_watch_requests", lambda setup, last_zxid: iter(()))
    assert noticed().startswith("no watch event is missing or late")


# -- the membership ------------------------------------------------------------------------------------


def test_client_changes_the_membership_and_each_answer_is_right() -> None:
    outcome = run(BY_NAME["rejoin-in-reconfig"].script(0, voters=3, machine="store"))
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    assert dict(outcome.counts)["changed by a client"] > 0


def test_server_that_shows_an_old_membership_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigNode, "on_membership", lambda *_: False)
    outcome = run(BY_NAME["rejoin-in-reconfig"].script(0, voters=3, machine="store"))
    assert outcome.invariant in (CONFIGURED, RECONFIGURED)
