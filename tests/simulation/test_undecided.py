"""What is given up breaks no promise and keeps none; what only looks like the cause is not named first; and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harness.checkers import Violation
from harness.checkers.linear import UNKNOWN, History, Operation, Registers, Unknown, check
from harness.checkers.store import Broken, InvariantVerdict
from harness.cli import main
from harness.draw import script_from_seed
from harness.faults import Crash, Isolate, Partition, Reconfigure, Script
from harness.mutants.edit import Edit, planted
from harness.run.plan import Plan
from harness.run.replay_line import LINE_MAX, replay_line
from harness.run.runner import campaign
from harness.scripts import ScriptError, dumps, loads
from harness.spark.rows import run_row
from harness.worlds.common import CHECK_EVERY, STUCK_US, Budget, BudgetExceeded
from harness.worlds.cores import simulator
from harness.worlds.cores import world as cores
from harness.worlds.cores.store.simulator import with_cause
from harness.worlds.cores.workload import Workload
from harness.worlds.stack import world as stack

ROOT = Path(__file__).resolve().parents[2]
ONE_KIND = ("--machine", "list", "--world", "cores", "--profile", "usual")


def test_a_run_that_takes_too_many_events_is_undecided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulator, "EVENTS_MAX", 500)
    outcome = cores.run(script_from_seed(42))
    assert outcome.unknown
    assert not outcome.valid
    assert outcome.invariant is None
    assert "budget of 500 events" in outcome.what
    assert run_row(outcome, world="cores", core_seconds=0.0)["outcome"] == "unknown"
    assert main(["run", "--seed", "42"]) == 1
    assert "UNKNOWN after " in capsys.readouterr().out
    assert main(["shrink", "--seed", "42"]) == 1
    assert main(["fuzz", "--runs", "2", "--jobs", "1", *ONE_KIND]) == 1
    said = capsys.readouterr().out
    assert "0 failed" in said
    assert said.count("UNKNOWN the run reached its budget of 500 events") == 2


def test_so_it_is_with_real_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.worlds.stack.simulation.STEPS_MAX", 100)
    outcome = stack.run(Script(1, length_ms=400))
    assert outcome.unknown
    assert "budget of 100 events" in outcome.what


def test_a_loop_in_which_no_time_goes_on_is_a_mistake() -> None:
    budget = Budget(10 * CHECK_EVERY)
    assert budget.until == CHECK_EVERY
    budget.check(CHECK_EVERY, STUCK_US)
    assert budget.until == 2 * CHECK_EVERY
    with pytest.raises(Violation, match="does not advance: 50000 events took 1 ms of virtual time"):
        budget.check(2 * CHECK_EVERY, STUCK_US + 1_000)
    with pytest.raises(BudgetExceeded, match="budget of 500000 events after 9000 ms"):
        Budget(10 * CHECK_EVERY).check(10 * CHECK_EVERY, 9_000_000)


def test_a_budget_bounds_the_cheap_way_too() -> None:
    writes = [Operation(n, "ann", "write", "/x", n, None, 10 * n, 10 * n + 1, zxid=n) for n in range(1, 6)]
    lost = Operation(9, "bob", "write", "/x", 9, UNKNOWN, 5, None)
    verdict = check(History((*writes, lost)), Registers(), budget=1)
    assert isinstance(verdict, Unknown)
    assert verdict.spent <= 1
    assert not isinstance(check(History((*writes, lost)), Registers(), budget=6), Unknown)


# -- which one is named --------------------------------------------------------------------------------


def test_violation_of_clients_precedes_liveness() -> None:
    held = cores.run(Script(7, length_ms=300))
    restless = evolve(held, invariant="liveness", what="client 1 watches /a, but its server has no such watches")
    broken = InvariantVerdict((Broken("no event is missed", "the event CREATED /a did not come", at=1),), 1, 1)
    named = with_cause(restless, broken)
    assert named.invariant == "no event is missed"
    assert named.what == f"{broken.what}; and then liveness: {restless.what}"
    assert with_cause(restless, InvariantVerdict((), 1, 1)) == restless


# -- scripts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "place"),
    [
        (Script(1, faults=(Crash(10), Crash(20, server=4))), r"script.faults\[1\].server: there is no server 4;"),
        (
            Script(1, faults=(Partition(10, groups=((1, 2), (3, 9))),)),
            r"script.faults\[0\].groups: there is no server 9",
        ),
    ],
)
def test_a_server_that_does_not_exist_is_refused(script: Script, place: str) -> None:
    with pytest.raises(ScriptError, match=place):
        loads(dumps(script))


def test_a_server_that_is_added_exists_and_a_change_may_be_about_anybody() -> None:
    added = Script(1, ops=(Reconfigure(50, "add", 5),), faults=(Isolate(100, server=5),))
    assert loads(dumps(added)) == added
    refused = Script(1, ops=(Reconfigure(50, "remove", 9),))
    assert loads(dumps(refused)) == refused


@pytest.mark.parametrize("command", [["run", "--seed", "1", "--print"], ["fuzz", "--runs", "1"]])
def test_more_servers_than_a_script_may_have_are_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--servers", "40"]) == 2
    assert "40 servers are too many" in capsys.readouterr().err


def test_a_long_script_is_in_a_file_that_the_line_names() -> None:
    script = script_from_seed(1, voters=5)
    line = replay_line(script)
    assert len(line) < LINE_MAX
    path = Path(line.split()[-1])
    assert loads(path.read_text()) == script
    assert replay_line(script) == line
    path.unlink()
    assert replay_line(Script(1)).startswith("echo ")


def test_a_long_script_lies_beside_the_picture_of_its_run(tmp_path: Path) -> None:
    script, beside = script_from_seed(1, voters=5), tmp_path / "first-failure.json"
    assert replay_line(script, beside=beside) == f"zab-harness replay --script {beside}"
    assert loads(beside.read_text()) == script
    beside.unlink()
    assert replay_line(Script(1), beside=beside).startswith("echo ")
    assert not beside.exists()


# -- many ----------------------------------------------------------------------------------------------


def test_it_stops_at_the_first_failure() -> None:
    plan = Plan(25, voters=(3,), ops=30, faults=2, mutant="commit-without-quorum")
    total = campaign(plan, stop_after=1)
    assert len(total.failures) == 1
    assert total.runs == total.failures[0].number + 1


@pytest.mark.parametrize("keeps", [False, True])
def test_terminated_fuzz_reports_stored_runs(tmp_path: Path, keeps: bool) -> None:
    kept = ["--output", str(tmp_path), "--master", "none"] if keeps else []
    command = [sys.executable, "-m", "harness", "fuzz", "--runs", "100000", "--jobs", "1", "--servers", "3", *kept]
    code = f"import signal, os; os.execv({command[0]!r}, {command!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, env=environment, text=True) as process:
        _wait_until_it_listens(process.pid)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 143
    assert "terminated" in said
    assert ("the same command resumes there" if keeps else "the runs so far are not stored") in said


def _wait_until_it_listens(pid: int) -> None:
    """To SIGTERM: the kernel says which signals a process catches."""
    bit = 1 << (signal.SIGTERM - 1)
    for _ in range(60_000):
        lines = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
        )
        if int(lines["SigCgt"], 16) & bit:
            return
        signal.sigtimedwait([], 0.01)
    raise AssertionError("it never listened")


# -- the log of a server -------------------------------------------------------------------------------


def test_a_server_that_stumbles_over_a_client_is_noticed() -> None:
    stumbles = Edit(
        "zab.service.connection.request_pipeline:RequestPipeline.written",
        "code = result[1]",
        "code = result[1]; assert xid % 3",
    )
    script = script_from_seed(3, machine="store", faults=0, ops=20, length_ms=1_000)
    assert stack.run(script).valid
    with planted([stumbles]):
        outcome = stack.run(script)
    assert outcome.invariant == "no server fails unexpectedly"
    assert "client_failed" in outcome.what


@pytest.mark.parametrize(("where", "in_task"), [("cores", False), ("stack", False), ("stack", True)])
def test_unexpected_exception_is_a_failure_of_its_run(
    where: str, in_task: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail_later() -> None:
        raise KeyError("lost")

    def fail(self: Any, *_: object) -> None:
        if not in_task:
            raise KeyError("lost")
        self.world.spawn(fail_later)

    monkeypatch.setattr(Workload, "perform", fail)
    kind = ["--machine", "list", "--world", where, "--profile", "usual"]
    assert main(["fuzz", "--runs", "3", "--jobs", "1", "--stop-after", "2", *kind, "--no-shrink"]) == 1
    printed = capsys.readouterr().out
    name = "fail_later" if in_task else "fail"
    assert printed.count(f"KeyError in {name} (test_undecided.py:") == 2, printed
