"""`harness.application`: programs under faults. Each fault has its effect, and each kind of failure is found."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

import harness
import zab
from harness.cli import main as command
from harness.faults import (
    NODE_FAULTS,
    Crash,
    CutNode,
    Fault,
    KillNode,
    PartNode,
    PauseNode,
    RestartNode,
    Script,
    StrikeNode,
    TurnClock,
)
from harness.outcome import Outcome
from harness.program import world as worlds
from harness.program.fleet import Fleet, NodeAct
from harness.program.generate import generated
from harness.program.runs import simpler
from harness.program.world import NO_ERROR, REPEATABLE, SETTLES, TURNS_MAX, Program, ProgramWorld, run
from harness.scripts import dumps, loads
from harness.shrink import same_invariant, shrink
from tests.simulation import programs

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tests.simulation.programs"


def played(
    main: Any, faults: Sequence[Fault] = (), *, nodes: int = 1, seconds: float = 20, trace: bool = False, **how: Any
) -> tuple[Outcome, Fleet]:
    script = Script(1, machine=f"{MODULE}:x", nodes=nodes, length_ms=round(1_000 * seconds), faults=tuple(faults))
    world = ProgramWorld(script, Program("x:x", main, **how), trace=trace)
    return world.run(), world.fleet


def acts(main: Any, *faults: Fault, **how: Any) -> list[NodeAct]:
    outcome, fleet = played(main, faults, **how)
    assert outcome.valid, outcome.what
    return fleet.acts


def of(found: Sequence[NodeAct], what: str) -> list[NodeAct]:
    return [act for act in found if act.what == what]


# -- determinism -----------------------------------------------------------------------------------------

HASH = """
from harness.program.generate import generated
from harness.program.world import Program, run
from tests.simulation import programs
for seed in (3, 6):
    script = generated(seed, machine="x:worker", nodes=3, servers=3, faults=8, length_ms=20_000)
    outcome = run(script, Program("x:worker", programs.worker), trace=True)
    print(script.faults, outcome.events, outcome.trace.hash())
print(run(script, Program("x:worker", programs.names), trace=True).trace.hash())
"""


def test_same_seed_is_same_run_in_any_process() -> None:
    def ran(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", HASH], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    assert ran("1") == ran("2") != ""


def test_trace_does_not_change_the_run() -> None:
    script = generated(6, machine="x:worker", nodes=3, servers=3, faults=8, length_ms=20_000)
    seen = []
    for trace in (False, True):
        world = ProgramWorld(script, Program("x:worker", programs.worker), trace=trace)
        outcome = world.run()
        seen.append((outcome.events, outcome.at_ms, world.fleet.acts))
    assert seen[0] == seen[1]


def test_scripts_are_stored_and_read() -> None:
    script = generated(11, machine="app:main", nodes=4, servers=3, faults=8, length_ms=60_000)
    assert loads(dumps(script)) == script
    with pytest.raises(ValueError, match="there is no node 2; the script has 1"):
        loads(dumps(Script(1, machine="app:main", nodes=1, faults=(KillNode(1, 1, 2),))))
    kinds = {
        type(fault)
        for seed in range(60)
        for fault in generated(seed, machine="app:main", nodes=3, servers=3, faults=8, length_ms=60_000).faults
    }
    assert set(NODE_FAULTS) <= kinds


# -- faults of nodes -------------------------------------------------------------------------------------


def test_kill_ends_a_node_without_any_further_effect() -> None:
    found = acts(programs.ticker, KillNode(5_000, 2_000, 1))
    assert not of(found, "end"), "a killed process does not run `finally`"
    assert [act.values for act in of(found, "start")] == [(1, 1), (2, 2)], "the disk survives"
    assert not [act for act in found if 5.0 < act.at < 7.0]


def test_killed_node_keeps_its_session_until_it_expires() -> None:
    seen: list[tuple[float, list[str]]] = []

    def look(fleet: Fleet) -> None:
        seen.append((fleet.now, fleet.children("/")))

    acts(programs.ticker, KillNode(5_000, 30_000, 1), invariants=(look,))
    times = [at for at, names in seen if "tick-1-1" in names]
    assert 9 < max(times) < 5 + 6 + 4, "the ephemeral node is gone after the timeout of the session"


def test_restart_lets_a_node_clean_up() -> None:
    found = acts(programs.ticker, RestartNode(5_000, 2_000, 1))
    assert [round(act.at) for act in of(found, "end")] == [5]
    assert [act.values for act in of(found, "start")] == [(1, 1), (2, 2)]


def test_pause_stops_all_tasks_of_a_node_and_its_session_expires() -> None:
    found = acts(programs.ticker, PauseNode(5_000, 12_000, 1), seconds=25, expected=(zab.ZabError,))
    assert not [act for act in found if 5.0 < act.at < 17.0]
    assert "expired" in [act.values[0] for act in of(found, "state") if act.at >= 17.0]


def test_cut_node_loses_its_servers_and_works_on() -> None:
    found = acts(programs.ticker, CutNode(5_000, 3_000, 1))
    assert [act.values[0] for act in of(found, "state")][-2:] == ["suspended", "connected"]
    assert len([act for act in of(found, "tick") if 5.0 < act.at < 8.0]) >= 2


def test_parted_node_moves_to_another_server() -> None:
    outcome, _ = played(programs.ticker, [PartNode(3_000, 16_000, 1, server) for server in (1, 2)], trace=True)
    assert outcome.trace is not None
    states = [act for act in outcome.trace.acts if act[2] == "node" and "state='connected'" in repr(act[4])]
    assert "server=3" in repr(states[-1])


def test_clock_of_a_node_jumps() -> None:
    found = of(acts(programs.ticker, TurnClock(5_000, 60_000, 1)), "wall")
    leads = [act.values[0] - found[0].values[0] for act in found]
    assert {round(lead) for act, lead in zip(found, leads, strict=True) if act.at < 5} == {0}
    assert {round(lead) for act, lead in zip(found, leads, strict=True) if 5 < act.at < 20} == {60}


@pytest.mark.parametrize("point", ["before request", "after request", "before reply"])
def test_cut_at_a_request_leaves_its_outcome_unknown(point: str) -> None:
    found = acts(
        programs.writer, *(StrikeNode(at, 200, 1, 1, point, "cut") for at in (5_000, 10_000, 15_000)), seconds=25
    )
    assert of(found, "unknown")
    if point == "before request":
        assert len(of(found, "unknown")) <= 3


def test_kill_after_a_request_loses_the_reply_and_not_always_the_write() -> None:
    found = acts(programs.writer, StrikeNode(5_000, 1_000, 1, 1, "before reply", "kill"), seconds=12)
    asked, done = ({act.values[0] for act in of(found, what) if act.start == 1} for what in ("asks", "done"))
    assert len(asked - done) <= 1
    assert {act.start for act in of(found, "asks")} == {1, 2}


def test_pause_before_a_step_holds_the_task_that_would_continue() -> None:
    found = acts(programs.writer, StrikeNode(5_000, 3_000, 1, 1, "before step", "pause"), seconds=12)
    times = [act.at for act in found]
    assert max(later - sooner for sooner, later in pairwise(times)) >= 3


def test_kill_after_an_act_is_exact() -> None:
    found = acts(programs.writer, StrikeNode(5_000, 1_000, 0, 1, "after act", "kill"), seconds=12)
    last = [act for act in found if act.start == 1][-1]
    assert last.at > 5
    assert [act for act in found if act.start == 2]


def test_node_moves_when_its_server_crashes() -> None:
    outcome, fleet = played(programs.ticker, [Crash(5_000, 2_000, server) for server in (1, 2, 3)], seconds=15)
    assert outcome.valid
    assert "suspended" in [act.values[0] for act in fleet.of("state")]


def test_nodes_share_what_is_outside_of_them() -> None:
    async def main(node: harness.Node) -> None:
        node.shared["starts"] = node.shared.get("starts", 0) + 1
        await trio.sleep_forever()

    assert played(main, [KillNode(3_000, 10, 1)], nodes=2, seconds=5)[1].shared == {"starts": 3}
    assert played(main, nodes=2, seconds=5)[1].shared == {"starts": 2}


def test_nodes_talk_to_each_other() -> None:
    found = of(acts(programs.talks, nodes=3, seconds=5), "heard")
    assert sorted(act.values[0] for act in found) == [b"hello 2", b"hello 3"]


# -- failures --------------------------------------------------------------------------------------------


def test_error_of_main_is_a_failure() -> None:
    outcome, _ = played(programs.fails, nodes=2, seconds=5, trace=True)
    assert outcome.invariant == f"{NO_ERROR}: AssertionError"
    assert "node 2 ends with two is wrong (programs.py:" in outcome.what
    assert "node 1    starts" in outcome.explanation


def test_exit_of_main_is_a_failure() -> None:
    outcome, _ = played(programs.exits, seconds=5)
    assert outcome.invariant == f"{NO_ERROR}: SystemExit"
    assert re.fullmatch(r"node 1 ends with SystemExit in exits \(programs.py:\d+\): 3", outcome.what), outcome.what


def test_exit_of_main_may_be_expected() -> None:
    assert played(programs.exits, seconds=9, expected=(SystemExit,))[0].valid


def test_exit_of_an_invariant_is_a_failure() -> None:
    outcome, _ = played(programs.returns, seconds=2, invariants=(lambda _: sys.exit("enough"),))
    assert outcome.invariant == "<lambda>"
    assert "SystemExit" in outcome.what


def test_expected_error_of_main_starts_the_node_again() -> None:
    outcome, fleet = played(programs.gives_up, expected=(zab.Unreachable, zab.OutcomeUnknown), seconds=9)
    assert outcome.valid, outcome.what
    assert [act.values[0] for act in fleet.of("start")] == [1, 2, 3]


def test_node_whose_main_returns_is_not_started_again() -> None:
    assert len(acts(programs.returns, KillNode(5_000, 10, 1), seconds=9)) == 1


def test_program_that_does_not_settle_is_a_failure() -> None:
    def settled(fleet: Fleet) -> bool:
        return bool(fleet.of("never"))

    outcome, _ = played(programs.ticker, seconds=5, settled=settled, settle_ms=3_000)
    assert outcome.invariant == SETTLES
    assert outcome.what == "3 s after the last fault, settled returns False"
    assert played(programs.ticker, seconds=5, settled=lambda fleet: fleet.now > 7)[0].valid


@pytest.mark.parametrize(
    ("answer", "what"),
    [(lambda _: False, "returns False"), (lambda _: "too many", "too many"), (lambda _: 1 // 0, "ZeroDivisionError")],
)
def test_invariant_says_why(answer: Any, what: str) -> None:
    outcome, _ = played(programs.ticker, seconds=5, invariants=(lambda _: None, answer))
    assert outcome.invariant == "<lambda>"
    assert what in outcome.what


def test_dependence_on_global_state_is_found() -> None:
    report = harness.application(programs.counts_runs, runs=1, seconds=3)
    assert report.failure is not None
    assert report.failure.invariant == REPEATABLE
    assert "act 1 is first" in report.failure.what


def test_busy_program_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "BUSY_S", 0.5)
    outcome, _ = played(programs.loops, nodes=2, seconds=1)
    assert outcome.invariant == worlds.ENDS
    assert re.match(r"node \d: programs.py:\d+ in loops is busy without end", outcome.what)


@pytest.mark.parametrize(("main", "place"), [(programs.spins, "spins"), (programs.spins_below, "spins_below")])
def test_steps_at_one_virtual_time_are_bounded(main: Any, place: str) -> None:
    outcome, _ = played(main, nodes=2, seconds=1)
    assert outcome.invariant == worlds.ENDS
    steps = re.escape(f" in {place} takes {TURNS_MAX} steps at ")
    assert re.match(rf"node 2: programs.py:\d+{steps}\d\.\d+ s, and never sleeps or waits", outcome.what), outcome.what


# -- forbidden calls -------------------------------------------------------------------------------------


def replaced() -> list[object]:
    return [
        time.time, time.sleep, dt.datetime, random.random, random.Random.__init__, os.urandom, threading.Thread.start,
        socket.socket.__init__, subprocess.Popen.__init__, trio.to_thread.run_sync, vars(programs)["real_seconds"],
        vars(programs)["date"],
    ]  # fmt: skip


@pytest.mark.parametrize("call", programs.FORBIDDEN)
def test_forbidden_call_is_named_with_its_line(call: str) -> None:
    before = replaced()
    outcome, _ = played(programs.forbidden(call), seconds=3)
    assert outcome.invariant == REPEATABLE
    assert outcome.what.startswith("node 1: programs.py:")
    assert f"calls {call}" in outcome.what
    assert "Use " in outcome.what
    assert replaced() == before


def test_random_names_are_seeded() -> None:
    assert acts(programs.names, seconds=2) == acts(programs.names, seconds=2)


# -- campaigns -------------------------------------------------------------------------------------------

NEEDED = StrikeNode(4_000, 15_000, 0, 4, "before step", "pause")
NEEDLESS = (
    Crash(1_000, 500, 1), PartNode(2_000, 1_000, 2, 1), TurnClock(2_500, 1_000, 1), KillNode(3_000, 100, 2),
)  # fmt: skip


def test_simpler_scripts_have_one_fault() -> None:
    late = KillNode(39_000, 10, 1)
    script = Script(1, machine="a:b", nodes=3, length_ms=40_000, faults=(*NEEDLESS, NEEDED, late))
    found = list(simpler(script, 38_000))
    assert {len(each.faults) for each in found} == {1}
    assert found[0].faults[0] == StrikeNode(3_000, 15_000, 0, 1, "before step", "pause")
    assert found[0].length_ms == 38_000
    assert [each.faults[0] for each in found[-len(NEEDLESS) :]] == [*reversed(NEEDLESS)]


def test_needless_faults_are_removed() -> None:
    script = Script(1, machine="x:worker", nodes=3, length_ms=30_000, faults=(*NEEDLESS, NEEDED))
    program = Program("x:worker", programs.worker, (programs.in_order,))
    outcome = run(script, program)
    assert outcome.invariant == "in_order"
    small = shrink(script, same_invariant(lambda each: run(each, program), "in_order"), runs_max=25).script
    assert [type(fault) for fault in small.faults] == [StrikeNode]


def test_bug_is_found_shrunk_and_explained(tmp_path: Path) -> None:
    picture = tmp_path / "run.html"
    how: dict[str, Any] = {"invariant": programs.in_order, "seconds": 40}
    report = harness.application(
        programs.worker, **how, keep=tmp_path, diagram=picture, shrink_seconds=8, seed=6, runs=2
    )
    failure = report.failure
    assert failure is not None
    assert failure.script is not None
    assert failure.invariant == "in_order"
    assert "a deposed leader worked" in failure.what
    assert 1 <= len(failure.script.faults) <= 2
    text = str(report)
    assert "acts: job" in text
    assert "is paused" in text
    assert "Replay it: harness.application(worker, script=" in text
    assert '"node 1"' in picture.read_text()
    again = harness.application(programs.worker, **how, script=failure.kept)
    assert again.failure is not None
    assert again.failure.what == failure.what


def test_script_ends_at_the_violation_and_report_says_that_the_time_was_over() -> None:
    report = harness.application(
        programs.worker, invariant=programs.in_order, seconds=40, shrink_seconds=0, seed=6, runs=1
    )
    failure = report.failure
    assert failure is not None
    assert failure.script is not None
    assert failure.script.length_ms == (failure.at_ms or 0) + 1 < 40_000
    assert max(fault.at for fault in failure.script.faults) < failure.script.length_ms
    assert "The smallest script found (shrinking stopped after 0 s; a smaller one may fail, too):" in str(report)


def test_bug_of_a_recipe_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that does not cancel the block of a holder without a connection, and the shipped one."""

    @asynccontextmanager
    async def careless(*_: object) -> AsyncIterator[None]:
        yield

    def ran() -> Outcome:
        how: dict[str, Any] = {
            "nodes": 2,
            "seconds": 25,
            "invariants": (programs.in_order,),
            "expected": (zab.ZabError,),
        }
        return played(programs.holder, [CutNode(5_000, 15_000, 0)], **how)[0]

    assert ran().valid
    monkeypatch.setattr("zab.recipes.lock.holding", careless)
    assert ran().invariant == "in_order"


def test_number_of_jobs_does_not_change_the_report() -> None:
    def found(jobs: int) -> Any:
        report = harness.application(
            programs.worker, invariant=programs.in_order, seconds=10, runs=3, jobs=jobs, stop_after=0
        )
        return {**report.as_json(), "seconds": 0}

    assert found(1) == found(2)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"nodes": 0}, "nodes=0: expected 1 or more"), ({"servers": 0}, "servers"), ({"runs": 0}, "runs=0"),
        ({"seconds": -1}, "seconds=-1"), ({"invariant": 5}, "invariant=5"), ({"settled": "x"}, "settled='x'"),
        ({"expected": int}, "expected=<class 'int'>"), ({"seconds": 0}, "seconds=0"), ({"nodes": 99}, "nodes=99"),
    ],
)  # fmt: skip
def test_wrong_argument_is_named(how: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        harness.application(programs.returns, **how)
    with pytest.raises(TypeError, match="expected an async function"):
        harness.application(len)  # type: ignore[arg-type]  # that is the mistake


def test_call_inside_trio_is_refused_by_name() -> None:
    async def inside() -> None:
        harness.application(programs.returns, runs=1)

    with pytest.raises(RuntimeError, match=r"harness.application\(\) runs Trio itself, and Trio already runs here"):
        trio.run(inside)


def test_command_runs_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "application",
        f"{MODULE}:fails",
        "--nodes",
        "2",
        "--runs",
        "1",
        "--seconds",
        "5",
        "--faults",
        "0",
        "--json",
    ]
    assert command(given) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failures"][0]["invariant"] == f"{NO_ERROR}: AssertionError"
    assert command(["application", f"{MODULE}:nothing"]) == 2
    assert command(["run", "--machine", f"{MODULE}:fails", "--seed", "1"]) == 2
