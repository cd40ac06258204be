"""Many runs of an embedder's machine; the first failure is made small, and told in the embedder's words."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from harness.checkers import Violation
from harness.draw import script_from_seed
from harness.embed import elsewhere, roundtrip
from harness.embed.arguments import check_keep, check_machine, check_numbers, check_script, check_servers
from harness.embed.model import Make, Model, check_makes, check_model, drawing
from harness.embed.state import check_state
from harness.embed.there import CHILD, Called
from harness.embed.world import run
from harness.faults import Script
from harness.outcome import Outcome
from harness.scripts import describe, dumps, loads
from harness.shrink import same_promise, shrink
from zab.core.plurals import counted


@frozen
class Failure:
    promise: str
    what: str
    script: Script | None
    """The smallest that fails in the same way; None when no fault is needed at all."""
    seed: int | None
    """The run that failed first."""


@frozen
class Undecided:
    """A run that was given up before it had come to its end, and what had been spent on it."""

    seed: int
    what: str


@frozen
class Report:
    machine: str
    runs: int
    requests: int
    """So many were acknowledged, in all runs together."""
    seconds: float
    failure: Failure | None
    notes: tuple[str, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    """These broke no promise, and kept none."""

    @property
    def held(self) -> bool:
        """Undecided is not held."""
        return self.failure is None and not self.undecided

    def check(self) -> Report:
        """For tests: an AssertionError that tells all, or the report."""
        if not self.held:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        numbers = f"{counted(self.runs, 'run')}, {counted(self.requests, 'request')} acknowledged, {self.seconds:.1f} s"
        failure = self.failure
        if failure is None and not self.undecided:
            return "\n".join([f"{self.machine} held: {numbers}", *self.notes])
        given_up = [f"UNDECIDED with seed {each.seed}: {each.what}" for each in self.undecided]
        if failure is None:
            lines = [
                f"{self.machine} UNDECIDED in {len(self.undecided)} of {counted(self.runs, 'run')}",
                f"({numbers})",
                *given_up,
            ]
            lines.append(f"Again, with the same arguments: campaign(..., seed={self.undecided[0].seed}, runs=1)")
            return "\n".join([*lines, *self.notes])
        lines = [f"{self.machine} VIOLATED: {failure.promise}", f"  {failure.what}", f"({numbers})"]
        if failure.script is None:
            lines.append("No fault is needed to see it: two machines and some requests, in one process, suffice.")
        else:
            lines += ["", "The smallest script that shows it:", *("  " + line for line in _lines(failure.script))]
            lines += ["", f"Again, with the same arguments: campaign(..., seed={failure.seed}, runs=1)"]
        return "\n".join([*lines, *given_up, *self.notes])


def _lines(script: Script) -> Sequence[str]:
    return describe(script).splitlines()


def campaign(
    machine: Make,
    *,
    model: Model | type,
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
    shrink_runs: int = 150,
) -> Report:
    """Run `machine` on simulated servers under faults, and hold what it answers against `model`.

    machine     its class, or whatever makes a new one; as it is given to `zab.open_member`
    model       `initial()`, and `step(state, request) -> (state, result)`
    requests    a function of a `random.Random`, a list to choose from, or a strategy of Hypothesis; by default
                the model's own `requests(random)`
    state       a function of a machine that returns its state as a value; servers that have applied the same
                must have the same. By default it is what `snapshot()` returns
    runs, seed  the seeds `seed`, `seed + 1`, ... are run; the same seed is the same run
    servers     how many there are, in turn
    faults, operations, length_ms  at most so many in a run, and its length before all is healed
    script      run only this one: a `Script`, or the path of a file with one
    keep        a folder in which the smallest failing script is stored
    shrink_runs  at most so many runs are spent on making the first failure small

    An argument that cannot be is a `TypeError` or a `ValueError` that names it, before anything runs.
    """
    if os.environ.get(CHILD):
        raise Called
    check_numbers(
        runs=runs, seed=seed, faults=faults, operations=operations, length_ms=length_ms, shrink_runs=shrink_runs
    )
    check_servers(servers)
    check_keep(keep)
    check_script(script)
    given = None if script is None else _given(script)
    make = check_makes(machine)
    theirs = check_model(model)
    look = check_state(state)
    draw = drawing(requests if requests is not None else getattr(theirs, "requests", None))
    name = getattr(machine, "__name__", type(machine).__name__)
    began = time.monotonic()
    notes: list[str] = []
    try:
        done = roundtrip.check(make, draw, look, str(seed))
        if not elsewhere.check(make, done, look):
            notes.append("not tried in another process: the machine's class is not at the top of a file")
    except Violation as violation:
        return Report(
            name, 0, 0, time.monotonic() - began, Failure(violation.promise, violation.what, None, None), tuple(notes)
        )
    scripts = given or _drawn(seed, runs, servers, faults, operations, length_ms)
    ran = acknowledged = 0
    undecided: list[Undecided] = []
    for number, each in scripts:
        outcome = run(each, make, theirs, draw, look)
        ran += 1
        acknowledged += outcome.acknowledged
        _progress(began, f"{ran} of {len(scripts)} runs")
        if outcome.undecided:
            undecided.append(Undecided(number, outcome.what))
        if outcome.promise is not None:
            failure = _made_small(outcome, number, lambda one: run(one, make, theirs, draw, look), shrink_runs, began)
            if keep is not None and failure.script is not None:
                notes.append(f"kept as {_kept(Path(keep), name, failure.script)}")
            return Report(name, ran, acknowledged, time.monotonic() - began, failure, tuple(notes), tuple(undecided))
    _progress(began, "")
    return Report(name, ran, acknowledged, time.monotonic() - began, None, tuple(notes), tuple(undecided))


def _drawn(
    seed: int, runs: int, servers: Sequence[int], faults: int, operations: int, length_ms: int
) -> list[tuple[int, Script]]:
    return [
        (
            number,
            script_from_seed(
                number,
                voters=servers[number % len(servers)],
                observers=0,
                faults=faults,
                ops=operations,
                length_ms=length_ms,
            ),
        )
        for number in range(seed, seed + runs)
    ]


def _given(script: Script | str | Path) -> list[tuple[int, Script]]:
    one = script if isinstance(script, Script) else loads(Path(script).read_text())
    check_machine(one)
    return [(one.seed, one)]


def _made_small(
    outcome: Outcome, number: int, again: Callable[[Script], Outcome], runs_max: int, began: float
) -> Failure:
    promise = outcome.promise
    assert promise is not None
    tried = 0

    def seen() -> None:
        nonlocal tried
        tried += 1
        _progress(began, f"making the failure small, {tried} tries")

    small = shrink(outcome.script, same_promise(again, promise, seen), runs_max=runs_max).script
    _progress(began, "")
    return Failure(promise, again(small).what, small, number)


def _kept(folder: Path, name: str, script: Script) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{script.seed}.json"
    path.write_text(dumps(script))
    return path


def _progress(began: float, words: str) -> None:
    if sys.stderr.isatty() and time.monotonic() - began > 2:
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()
