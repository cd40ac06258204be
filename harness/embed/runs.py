"""Campaigns against a user's machine, in several processes. Each kind of failure is shrunk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from attrs import evolve, frozen

from harness.checkers import Violation
from harness.embed import other_process, roundtrip
from harness.embed.arguments import check_numbers, check_paths, check_script, check_seconds, check_servers
from harness.embed.child import CHILD, Called
from harness.embed.lookup import name_of, parts_of, shell_prefix, without_model
from harness.embed.model import MODEL, REQUESTS, STATE, Make, Model, SystemUnderTest, system_of
from harness.embed.report import Failure, Report, Unknown
from harness.embed.world import run
from harness.faults import MACHINES, Script
from harness.outcome import Outcome
from harness.report.diagram import page, read
from harness.report.summary import summary
from harness.run.plan import Plan
from harness.run.regressions import script_in
from harness.run.replay_line import replay_line, written
from harness.run.runner import spread
from harness.run.tally import grouped
from harness.script.names import is_users
from harness.scripts import dumps
from harness.shrink import same_invariant, shrink


@frozen
class _Ran:
    """The part of an outcome that the report needs. It is sent between processes."""

    number: int
    script: Script
    acknowledged: int
    unknown: bool
    invariant: str | None
    what: str
    explanation: str


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
    if os.environ.get(CHILD):
        raise Called
    check_numbers(
        runs=runs, seed=seed, faults=faults, operations=operations, length_ms=length_ms, shrink_runs=shrink_runs,
        jobs=jobs, stop_after=stop_after,
    )  # fmt: skip
    check_seconds(shrink_seconds)
    check_servers(servers)
    check_paths(keep=keep, diagram=diagram)
    check_script(script)
    if script is None:
        plan = Plan(runs, seed, tuple(servers), 0, faults, operations, length_ms, machine=name_of(machine))
        scripts = _generated(plan)
    else:
        one = _loaded(script, name_of(machine))
        scripts = [(one.seed, one)]
    given = _system(machine, model, requests, state)
    system = given.system
    name = getattr(machine, "__name__", type(machine).__name__)
    began = time.monotonic()
    notes: list[str] = []
    try:
        life = roundtrip.check(system.make, system.draw, system.state, str(seed))
        if not other_process.check(system.make, life, system.state):
            notes.append("not tried in another process: the class of the machine is not at the top level of a file")
    except Violation as violation:
        explanation = violation.explanation if isinstance(violation, roundtrip.LocalViolation) else ""
        local = Failure(violation.invariant, violation.what, None, None, explanation=explanation)
        return Report(name, 0, 0, time.monotonic() - began, (local,), tuple(notes))
    ran: list[_Ran] = []
    failed = 0
    try:
        with closing(spread(partial(_ran, system), scripts, jobs)) as results:
            for done in results:
                ran.append(done)
                _progress(began, f"{len(ran)} of {len(scripts)} runs")
                failed += done.invariant is not None
                if stop_after and failed >= stop_after:
                    break
    except KeyboardInterrupt:
        _progress(began, "")
        print(f"interrupted after {len(ran)} of {len(scripts)} runs", file=sys.stderr)
        print(_report(name, ran, _failures(ran), notes, began), file=sys.stderr)
        raise
    failures = [_shrunk(each, system, shrink_runs, shrink_seconds, began) for each in _failures(ran)]
    _progress(began, "")
    if script is not None:
        failures = [evolve(each, seed=None) for each in failures]
    pictures = _numbered(diagram, len(failures))
    failures = [_stored(each, given, name, keep, picture) for each, picture in zip(failures, pictures, strict=True)]
    return _report(name, ran, failures, notes, began)


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
    if os.environ.get(CHILD):
        raise Called
    check_paths(diagram=diagram)
    check_script(script)
    given = _system(machine, model, requests, state)
    system = given.system
    name = getattr(machine, "__name__", type(machine).__name__)
    began = time.monotonic()
    outcome = run(_loaded(script, system.name), system, trace=diagram is not None)
    one = _as_ran(outcome.script.seed, outcome)
    file = None if isinstance(script, Script) else Path(script)
    line = given.line(outcome.script, file)
    failures = [evolve(each, seed=None, replay=line) for each in _failures([one])]
    if diagram is not None:
        _draw(Path(diagram), outcome, name, line)
        failures = [evolve(each, diagram=Path(diagram)) for each in failures]
    return _report(name, [one], failures, [], began)


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


def _report(name: str, ran: Sequence[_Ran], failures: Sequence[Failure], notes: Sequence[str], began: float) -> Report:
    return Report(
        name,
        len(ran),
        sum(each.acknowledged for each in ran),
        time.monotonic() - began,
        tuple(failures),
        tuple(notes),
        tuple(Unknown(each.number, each.what) for each in ran if each.unknown),
    )


def _failures(ran: Sequence[_Ran]) -> list[Failure]:
    """Return a failure for each violated invariant, with the script of its first run."""
    failed = [each for each in ran if each.invariant is not None]
    return [
        Failure(one.invariant or "", one.what, one.script, one.number, runs, explanation=one.explanation)
        for one, runs in grouped(failed, lambda each: each.invariant)
    ]


# -- runs ------------------------------------------------------------------------------------------------

Numbered: TypeAlias = tuple[int, Script]


def _ran(system: SystemUnderTest, numbered: Numbered) -> _Ran:
    number, script = numbered
    return _as_ran(number, run(script, system=system))


def _as_ran(number: int, outcome: Outcome) -> _Ran:
    names = ("acknowledged", "unknown", "invariant", "what", "explanation")
    return _Ran(number, outcome.script, *(getattr(outcome, name) for name in names))


def _generated(plan: Plan) -> list[Numbered]:
    return [(plan.base + number, plan.script(number)) for number in range(plan.runs)]


# -- a failure -----------------------------------------------------------------------------------------


def _shrunk(failure: Failure, system: SystemUnderTest, runs_max: int, seconds_max: float, began: float) -> Failure:
    """Return the failure of the smallest script that was found in time."""
    tried = 0
    last: dict[Script, Outcome] = {}

    def play(script: Script) -> Outcome:
        nonlocal tried
        tried += 1
        _progress(began, f"shrinking the failure, {tried} tries")
        outcome = run(script, system=system)
        if outcome.invariant == failure.invariant:
            last[script] = outcome
        return outcome

    assert failure.script is not None
    found = shrink(failure.script, same_invariant(play, failure.invariant), runs_max=runs_max, seconds_max=seconds_max)
    outcome = last.get(found.script)
    if outcome is None:
        return evolve(failure, shrunk=True)
    return evolve(failure, what=outcome.what, script=found.script, explanation=outcome.explanation, shrunk=True)


def _stored(failure: Failure, given: _Given, name: str, keep: str | Path | None, picture: Path | None) -> Failure:
    """Store the script and draw the run, if requested, and add the line that replays it."""
    assert failure.script is not None
    file = None if keep is None else _kept(Path(keep), name, failure.script)
    line = given.line(failure.script, file)
    if picture is not None:
        _draw(picture, run(failure.script, system=given.system, trace=True), name, line)
    return evolve(failure, replay=line, kept=file, diagram=picture)


def _draw(path: Path, outcome: Outcome, name: str, line: str) -> None:
    assert outcome.trace is not None
    lines = summary(outcome, read(outcome.trace, outcome.script.servers))
    title = f"{name} is valid" if outcome.valid else f"{name}: {outcome.invariant or 'unknown'}"
    path.write_text(page(outcome, line, title=title, summary=tuple(each.strip() for each in lines)))


def _numbered(path: str | Path | None, count: int) -> list[Path | None]:
    """Return the paths of the pictures: run.html, run-2.html, ..."""
    if path is None:
        return [None] * count
    first = Path(path)
    return [first if number == 1 else first.with_stem(f"{first.stem}-{number}") for number in range(1, count + 1)]


def _kept(folder: Path, name: str, script: Script) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{script.seed}.json"
    path.write_text(dumps(script))
    return path


def _progress(began: float, words: str) -> None:
    if sys.stderr.isatty() and time.monotonic() - began > 2:
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()
