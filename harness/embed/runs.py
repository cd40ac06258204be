"""Campaigns against a user's machine, in several processes. Each kind of failure is shrunk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from harness.checkers import Violation
from harness.embed import arguments, other_process, roundtrip
from harness.embed.lookup import name_of, parts_of, shell_prefix, without_model
from harness.embed.model import MODEL, REQUESTS, STATE, Make, Model, SystemUnderTest, system_of
from harness.embed.report import Failure, Report
from harness.embed.search import Limits, Subject, replayed, search
from harness.embed.world import run
from harness.faults import MACHINES, Script
from harness.run.plan import Plan
from harness.run.regressions import script_in
from harness.run.replay_line import replay_line, written
from harness.script.names import is_users


@frozen
class _Given:
    """The system under test, and the arguments that define it, for the line that replays a run."""

    system: SystemUnderTest
    machine: object
    parts: dict[str, object]

    def line(self, script: Script, file: Path | None) -> str:
        """Return the line that replays the script: of shell if `zab-harness` finds the machine, else of Python."""
        prefix = shell_prefix(self.machine, **self.parts)
        if prefix is not None:
            return prefix + replay_line(script, file=file or written(script))
        words = [_named(self.machine), repr(str(file or written(script)))]
        words += [f"{part}={_named(value)}" for part, value in self.parts.items() if value is not None]
        return f"harness.replay({', '.join(words)})"


def _named(value: object) -> str:
    name = getattr(value, "__name__", None)
    return "..." if name is None or "<" in name else str(name)


def campaign(
    machine: Make,
    *,
    model: Model | type | None = None,
    requests: object = None,
    state: object = None,
    runs: int = 50,
    seed: int = 0,
    servers: Sequence[int] = (3, 5),
    faults: int = 8,
    operations: int = 60,
    length_ms: int = 2_000,
    script: Script | str | Path | None = None,
    keep: str | Path | None = None,
    diagram: str | Path | None = None,
    shrink_runs: int = 150,
    shrink_seconds: float = 60.0,
    jobs: int = 1,
    stop_after: int = 1,
) -> Report:
    """Run `machine` on simulated servers under faults, and compare its results with those of `model`.

    machine     its class, or a function that makes a new one, as for `zab.open_member`
    model       `initial()`, and `step(state, request) -> (state, result)`; by default the attribute `model` of the
                class, or the only class of its module with these methods
    requests    a function of a `random.Random`, a list to choose from, or a strategy of Hypothesis; by default
                `requests` of the class (a static method), the model's own `requests(random)`, or that of the module
    state       a function of a machine that returns its state as a value; servers that have applied the same
                must have the same. By default it is `state` of the class (a static method), or what `snapshot()`
                returns
    runs, seed  the seeds `seed`, `seed + 1`, ... are run; the same seed is the same run
    servers     the numbers of servers, in turn
    faults, operations, length_ms  the most of a run, and the virtual time until all faults end
    script      run only this one: a `Script`, or the path of a file with one
    keep        a folder in which the smallest failing scripts are stored
    diagram     an HTML file for the picture of the smallest run of the first failure; others are beside it
    shrink_runs, shrink_seconds  the most runs and seconds to shrink each failure
    jobs        the number of processes; the report is the same for any number
    stop_after  end after this number of failing runs; 0: after all runs. Failures are grouped by the violated invariant

    A wrong argument is a `TypeError` or a `ValueError` that names it, before anything runs. Ctrl-C prints the report of
    the runs so far; while a failure is shrunk, it ends that search with the smallest script so far.
    """
    arguments.check_place("campaign")
    arguments.check_numbers(
        runs=runs, seed=seed, faults=faults, operations=operations, length_ms=length_ms, shrink_runs=shrink_runs,
        jobs=jobs, stop_after=stop_after,
    )  # fmt: skip
    arguments.check_seconds(shrink_seconds)
    arguments.check_servers(servers)
    arguments.check_paths(keep=keep, diagram=diagram)
    arguments.check_script(script)
    if script is None:
        plan = Plan(runs, seed, tuple(servers), 0, faults, operations, length_ms, machine=name_of(machine))
        scripts = [(seed + number, plan.script(number)) for number in range(runs)]
    else:
        one = _loaded(script, name_of(machine))
        scripts = [(one.seed, one)]
    given = _system(machine, model, requests, state)
    system, subject = given.system, _subject(given, machine)
    began = time.monotonic()
    notes: list[str] = []
    try:
        life = roundtrip.check(system.make, system.draw, system.state, str(seed))
        if not other_process.check(system.make, life, system.state):
            notes.append("not tried in another process: the class of the machine is not at the top level of a file")
    except Violation as violation:
        explanation = violation.explanation if isinstance(violation, roundtrip.LocalViolation) else ""
        local = Failure(violation.invariant, violation.what, None, None, explanation=explanation)
        return Report(subject.name, 0, 0, time.monotonic() - began, (local,), tuple(notes))
    limits = Limits(jobs, stop_after, shrink_runs, shrink_seconds, keep, diagram)
    return search(subject, scripts, limits, began, notes, seeded=script is None)


def replay(
    machine: Make,
    script: Script | str | Path,
    *,
    model: Model | type | None = None,
    requests: object = None,
    state: object = None,
    diagram: str | Path | None = None,
) -> Report:
    """Run one script again, and return its report. The arguments are those of `campaign`.

    The script is not shrunk. `diagram` is drawn also if every invariant holds.
    """
    arguments.check_place("replay")
    arguments.check_paths(diagram=diagram)
    arguments.check_script(script)
    given = _system(machine, model, requests, state)
    began = time.monotonic()
    file = None if isinstance(script, Script) else Path(script)
    return replayed(_subject(given, machine), _loaded(script, given.system.name), file, diagram, began)


def _subject(given: _Given, machine: Make) -> Subject:
    name = getattr(machine, "__name__", type(machine).__name__)
    return Subject(name, partial(run, system=given.system), given.line, "campaign", "request acknowledged")


def _system(machine: Make, model: object, requests: object, state: object) -> _Given:
    usual = parts_of(machine)
    parts = {MODEL: model, REQUESTS: requests, STATE: state}
    chosen = {
        part: usual[part] if value is None and (part != REQUESTS or model is None) else value
        for part, value in parts.items()
    }
    if chosen[MODEL] is None:
        raise TypeError(f"model=None: {getattr(machine, '__name__', machine)} {without_model(machine)}")
    return _Given(system_of(machine, name_of(machine), **chosen), machine, parts)


def _loaded(script: Script | str | Path, name: str) -> Script:
    """Return the script for this machine. A script for another user machine is accepted: its requests may fit."""
    one = script if isinstance(script, Script) else script_in(Path(script).read_text())
    if one.machine != MACHINES[0] and not is_users(one.machine):
        raise ValueError(
            f"script: its machine is {one.machine!r}; your own machine needs a script for {MACHINES[0]!r} or for"
            " module:Class"
        )
    return evolve(one, machine=name)
