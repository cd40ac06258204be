"""Servers of Apache ZooKeeper and of ours in one ensemble, under scripts with faults."""

from __future__ import annotations

import pytest

from harness.apache_zookeeper import why_not
from harness.faults import Ask, Connect, Crash, CutLinks, Fault, Isolate, LoseDisk, OldDisk, Op, Script, Step
from harness.history import Invoke
from harness.script.checks import ScriptError
from harness.script.script import Knobs
from harness.worlds import world
from harness.worlds.processes.cluster import zookeeper_servers
from harness.worlds.processes.world import run

pytestmark = pytest.mark.slow
needs_apache = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
LENGTH_MS = 4_000


def silent(words: str) -> None:
    """Ignore the progress messages."""


def script(*faults: Fault, seed: int = 1, ops: tuple[Op, ...] = ()) -> Script:
    """Return a script with clients at all servers. With seed 1, server 1 is of ZooKeeper."""
    steps = (Step("set", "/a"), Step("sync", "/a"), Step("get", "/a"), Step("create", "/a/s-", mode="sequential"))
    usual = [
        *(Connect(0, client, client, 20_000) for client in (1, 2, 3)),
        Ask(100, 1, (Step("create", "/a"),)),
        *(Ask(at, at % 3 + 1, (steps[at // 3 % 4],)) for at in range(200, LENGTH_MS, 20)),
    ]
    made = Script(
        seed,
        machine="store",
        length_ms=LENGTH_MS,
        knobs=Knobs(zookeeper_servers=1),
        ops=tuple(sorted((*usual, *ops), key=lambda op: op.at)),
        faults=faults,
    )
    assert zookeeper_servers(made) == {1}
    return made


@needs_apache
def test_history_survives_a_killed_leader_a_partition_and_a_lost_disk() -> None:
    faults = (CutLinks(600, 1), Crash(1_000, 100), Isolate(2_500, 1_200, 1), LoseDisk(3_000, 100, 2), OldDisk(3_500))
    outcome = run(script(*faults), tell=silent)
    assert outcome.valid, outcome.what
    assert outcome.elections >= 2
    assert outcome.acknowledged > 0
    history = outcome.history
    assert history is not None
    assert {event.server for event in history.events if isinstance(event, Invoke)} >= {1, 3}
    assert ("fault that a mixed ensemble does not survive", 1) in outcome.counts


@needs_apache
@pytest.mark.nightly
def test_violation_names_the_server_of_ours_that_has_a_bug() -> None:
    watches = [Ask(at, 2, (Step("exists", "/a", watch="once"),)) for at in range(250, LENGTH_MS, 500)]
    outcome = run(script(ops=tuple(watches)), mutant="watch-fires-twice", tell=silent)
    assert outcome.invariant == "a watch fires only for its node, and a one-shot watch once", outcome.what
    assert "server 1 (ZooKeeper), server 2 (zab), server 3 (zab); the session was at server 2" in outcome.what


def test_servers_of_zookeeper_need_real_processes() -> None:
    with pytest.raises(ScriptError, match="need --world processes, not cores"):
        world("cores").playable(script())


def test_missing_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ScriptError, match="needs java"):
        run(script(), tell=silent)
