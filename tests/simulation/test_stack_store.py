"""The store in the simulated runtime: real servers, sessions of `zab.connect`, and the checkers of all worlds."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.checkers.store.quotas import COUNTED, LIMITED
from harness.draw import script_from_seed
from harness.faults import (
    LEADER,
    Ask,
    Connect,
    Crash,
    Fault,
    Knobs,
    Leave,
    Op,
    Pause,
    Reconfigure,
    Restart,
    Script,
    Step,
    Timing,
    Vanish,
)
from harness.history import History, Info, Invoke, Response, SessionEvent, WatchFired
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.worlds.stack.world import run


def script(*ops: Op, faults: tuple[Fault, ...] = (), length_ms: int = 1_500) -> Script:
    return Script(1, voters=3, machine="store", ops=ops, faults=faults, length_ms=length_ms)


def ask(at: int, *steps: Step, client: int = 1) -> Ask:
    return Ask(at, client, steps)


def seen(outcome: Outcome) -> History:
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    assert outcome.history is not None
    return outcome.history


def states(history: History, client: int = 1) -> list[str]:
    return [event.state for event in history.events if isinstance(event, SessionEvent) and event.client == client]


@pytest.mark.parametrize("seed", range(3))
def test_drawn_run_is_valid(seed: int) -> None:
    history = seen(run(script_from_seed(seed, machine="store", voters=3 + 2 * (seed % 2))))
    assert any(isinstance(event, Response) for event in history.events)


@pytest.mark.parametrize("fault", [Crash(500, server=3, down_ms=2_000), Restart(500, server=3, down_ms=2_000)])
def test_session_moves_with_its_watches_when_its_server_stops(fault: Fault) -> None:
    history = seen(
        run(
            script(
                Connect(300, 1, 3),
                ask(400, Step("create", "/a", mode="ephemeral")),
                ask(410, Step("watch", "/a", watch="persistent")),
                ask(900, Step("set", "/a"), client=2),
                faults=(fault,),
            )
        )
    )
    assert states(history) == ["connected", "disconnected", "connected"]
    assert len({event.session for event in history.events if event.client == 1 and event.session}) == 1
    assert [event.event for event in history.events if isinstance(event, WatchFired)] == ["data"]


def test_session_and_ephemerals_of_a_vanished_client_expire() -> None:
    history = seen(
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


def test_client_that_closed_its_session_begins_another_for_its_next_request() -> None:
    history = seen(run(script(Connect(300), Leave(500), ask(800, Step("get", "/")))))
    assert states(history)[-1] == "connected"
    assert "closed" in states(history)
    assert (
        len({event.session for event in history.events if isinstance(event, SessionEvent) and event.client == 1}) == 2
    )


def test_cancelled_call_has_an_unknown_outcome_and_no_reply() -> None:
    asked = [ask(500 + 5 * number, Step("create", "/n", mode="sequential")) for number in range(60)]
    slow = Timing(fsync_us_min=30_000, fsync_us_max=60_000)
    outcome = run(evolve(script(Connect(300), *asked), timing=slow))
    history = seen(outcome)
    lost = {event.call for event in history.events if isinstance(event, Info)}
    told = {event.call for event in history.events if isinstance(event, Response)}
    assert len(lost) == dict(outcome.counts)["cancelled call"] > 0
    assert not lost & told
    assert sum(isinstance(event, Invoke) and event.client == 1 for event in history.events) == 60
    made = [change for change in history.changes if change.kind == "create"]
    assert len(made) == 60, "cancelling does not take a request back"


def test_leader_does_not_expire_sessions_for_the_time_of_its_pause() -> None:
    """When it resumes, its check of sessions is overdue, and requests from the time of the pause are not read yet."""
    connects = [Connect(300 + client, client, client, 200) for client in (1, 2, 3)]
    asks = [ask(at, Step("sync", "/"), client=client) for client in (1, 2, 3) for at in range(400, 1_400, 30)]
    played = evolve(script(*connects, *asks, faults=(Pause(700, 240, LEADER),)), knobs=Knobs(tick_ms=100))
    history = seen(run(played))
    assert "expired" not in [event.state for event in history.events if isinstance(event, SessionEvent)]
    with planted(BY_NAME["ends-what-it-slept-through"].edits):
        outcome = run(played)
    assert outcome.invariant == "a silent session expires after its timeout"
    assert "paused for 240 ms" in outcome.what


LIMITS = "count=-1,bytes=-1=;countHardLimit=2"


def limited() -> Script:
    """Create two nodes below /a, one of them ephemeral, and exceed the quota by a third."""
    quota = "/zookeeper/quota/a"
    stats = f"{quota}/zookeeper_stats"
    return script(
        Connect(60, 1, 1, 2_000),
        Connect(60, 2, 2, 2_000),
        ask(300, Step("create", "/a")),
        ask(320, Step("create", quota)),
        ask(340, Step("create", f"{quota}/zookeeper_limits", limits=LIMITS)),
        ask(360, Step("create", stats)),
        ask(400, Step("create", "/a/x", mode="ephemeral"), client=2),
        ask(600, Step("create", "/a/y")),
        Leave(700, 2),
        ask(900, Step("get", stats)),
    )


def test_quota_violations_are_detected() -> None:
    history = seen(run(limited()))
    assert "QUOTA_EXCEEDED" in [event.reply.error for event in history.events if isinstance(event, Response)]
    with planted(BY_NAME["one-beyond-the-limit"].edits):
        assert run(limited()).invariant == LIMITED
    with planted(BY_NAME["what-ends-is-counted-on"].edits):
        assert run(limited()).invariant == COUNTED


def test_last_reader_of_many_nodes_finishes_in_time_on_a_slow_network() -> None:
    asked = [ask(400 + 3 * number, Step("create", "/n", mode="sequential")) for number in range(200)]
    seen(run(evolve(script(Connect(300), *asked), timing=Timing(delay_us_min=20_000, delay_us_max=30_000))))


def test_membership_changes_under_load() -> None:
    """A member requests the changes, as clients of the simulated cores cannot connect to these servers."""
    changes = [Reconfigure(at, "add" if at % 800 else "remove", 4) for at in range(400, 2_800, 400)]
    asks = [ask(at, Step("set", "/a")) for at in range(350, 2_800, 200)]
    outcome = run(script(Connect(200, 1), ask(300, Step("create", "/a")), *asks, *changes, length_ms=3_000))
    history = seen(outcome)
    assert sum(isinstance(event, Response) for event in history.events) > len(asks) // 2
    assert dict(outcome.counts)["membership"] > 12, "each server logs each active membership"
