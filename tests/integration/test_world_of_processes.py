"""Real servers under a script: invariants are checked in the clients' histories and on the disks."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import trio

from harness.cli import main
from harness.faults import (
    LEADER,
    Ask,
    Connect,
    Crash,
    Isolate,
    Leave,
    Pause,
    Script,
    Snapshot,
    Step,
    Write,
)
from harness.history import Response, SessionEvent, WatchFired
from harness.outcome import Outcome
from harness.scripts import dumps
from harness.worlds.processes import netns
from harness.worlds.processes.addresses import Loopback
from harness.worlds.processes.cluster import NO_DEATH
from harness.worlds.processes.run import LIVENESS, World
from harness.worlds.processes.verdict import DURABLE, outcome_of
from harness.worlds.processes.world import run

pytestmark = pytest.mark.slow


def silent(words: str) -> None:
    """Ignore the progress messages."""


def test_acknowledged_writes_survive_a_paused_and_a_killed_leader() -> None:
    script = Script(
        1,
        length_ms=2_500,
        ops=(*(Write(at, 2, 8) for at in range(0, 2_500, 100)), Snapshot(400, LEADER)),
        faults=(Pause(200, 300, LEADER), Crash(900, 100, LEADER)),
    )
    outcome = run(script, trace=True, tell=silent)
    assert outcome.valid, outcome.what
    assert outcome.acknowledged > 10
    assert outcome.elections >= 2
    assert [each.kind for each in outcome.recoveries] == ["Pause", "Crash"]
    assert outcome.trace is not None
    assert "is started" in outcome.trace.text()
    assert outcome.place is None


def test_store_clients_are_judged_by_their_history() -> None:
    writes = (Step("set", "/a"), Step("create", "/a/x-", mode="sequential"))
    script = Script(
        2,
        machine="store",
        length_ms=2_500,
        ops=(
            Connect(0, 1, 1, 20_000),
            Connect(0, 2, 2, 20_000),
            Ask(50, 1, (Step("create", "/a"),)),
            Ask(200, 2, (Step("sync", "/a"),)),
            Ask(200, 2, (Step("exists", "/a", watch="once"),)),
            *(Ask(at, 1, writes) for at in range(300, 2_400, 100)),
            *(Ask(at, 2, (Step("children", "/a"),)) for at in range(300, 2_400, 100)),
            Connect(1_000, 2, 3, 20_000),
            Ask(1_000, 2, (Step("create", "/b", mode="ephemeral"),)),
            Leave(2_400, 2),
        ),
        faults=(Isolate(700, 200, 1),),
    )
    outcome = run(script, tell=silent)
    assert outcome.valid, outcome.what
    history = outcome.history
    assert history is not None
    kinds = {change.kind for change in history.changes}
    assert {"open", "create", "set", "close"} <= kinds
    assert any(isinstance(event, WatchFired) and event.path == "/a" for event in history.events)
    assert {event.server for event in history.events if isinstance(event, SessionEvent) and event.client == 2} == {2, 3}
    assert sum(isinstance(event, Response) for event in history.events) > 20


def test_server_that_ends_by_itself_is_a_violation_and_no_process_is_left(tmp_path: Path) -> None:
    """The test kills a server behind the back of the harness, as no server ends by itself."""
    places = Loopback()
    script = Script(3, voters=1, length_ms=1_000)
    world = World(script, tmp_path, places)
    pids: list[int] = []

    async def kill() -> None:
        await world.until(lambda: world.servers[1].serves)
        pids.append(world.servers[1].pid)
        os.kill(pids[0], 9)

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill)
            await world.main()

    try:
        trio.run(both)
    finally:
        places.close()
    outcome: Outcome = outcome_of(world)
    assert outcome.invariant == NO_DEATH
    assert "server 1 ended with -9" in outcome.what
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.skipif(netns.can_make() is not None, reason="network namespaces cannot be made here")
def test_ensemble_replaces_a_leader_with_dropped_packets() -> None:
    script = Script(
        6,
        length_ms=2_500,
        ops=tuple(Write(at, 1, 8) for at in range(0, 2_500, 100)),
        faults=(Isolate(200, 2_200, LEADER),),
    )
    outcome = run(script, spaces=True, tell=silent)
    assert outcome.valid, outcome.what
    assert outcome.elections >= 2


def test_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    places = Loopback()
    world = World(Script(4, length_ms=60_000), tmp_path, places)

    async def impatient() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.main)
            while not all(server.pid for server in world.servers.values()):
                await trio.sleep(0.01)
            pids.extend(server.pid for server in world.servers.values())
            nursery.cancel_scope.cancel()

    pids: list[int] = []
    try:
        trio.run(impatient)
    finally:
        places.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_planted_bug_in_real_servers_is_detected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An isolated leader commits without a quorum and acknowledges writes.

    After the isolation it may veto the new leader, which lacks transactions that it committed: then the run does not
    recover, either. The test waits for the recovery less long than others, and checks who does not serve.
    """
    monkeypatch.setattr(World, "bound_s", property(lambda world: 8.0 if world.healed else 60.0))
    script = Script(
        5,
        length_ms=2_500,
        ops=tuple(Write(at, 1, 8) for at in range(0, 2_500, 50)),
        faults=(Isolate(300, 2_100, LEADER),),
    )
    file = tmp_path / "script.json"
    file.write_text(dumps(script))
    bug = ["--mutant", "commit-without-quorum"]
    assert main(["replay", "--world", "processes", "--json", "--script", str(file), *bug]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["invariant"] == DURABLE or (
        told["invariant"] == LIVENESS and re.search(r"\d looking in epoch 1, serving False", told["what"])
    ), told["what"]
    shutil.rmtree(told["what"].rpartition(" ")[2])
