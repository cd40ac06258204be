"""Many runs of the user's machine, in several processes; each kind of failure is made small."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from attrs import evolve, frozen

from harness.checkers import Violation
from harness.draw import script_from_seed
from harness.embed import elsewhere, roundtrip
from harness.embed.arguments import check_keep, check_machine, check_numbers, check_script, check_servers
from harness.embed.model import Draw, Make, Model, check_makes, check_model, drawing
from harness.embed.report import Failure, Report, Undecided
from harness.embed.state import State, check_state
from harness.embed.there import CHILD, Called
from harness.embed.world import run
from harness.faults import Script
from harness.many import workers
from harness.outcome import Outcome
from harness.scripts import dumps, loads
from harness.shrink import same_promise, shrink


@frozen
class _Ran:
    """The outcome of a run, as far as the report needs it: it travels between processes."""

    number: int
    script: Script
    acknowledged: int
    undecided: bool
    promise: str | None
    what: str


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
    jobs: int = 1,
    stop_after: int = 1,
) -> Report:
    """Run `machine` on simulated servers under faults, and compare its results with those of `model`.

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
    shrink_runs  the most runs that are spent to make a failure small
    jobs        the number of processes; the report is the same for any number
    stop_after  end after this number of failing runs; 0: after all runs. Failures are grouped by the broken promise

    A wrong argument is a `TypeError` or a `ValueError` that names it, before anything runs. Ctrl-C prints the report of
    the runs so far.
    """
    if os.environ.get(CHILD):
        raise Called
    check_numbers(
        runs=runs, seed=seed, faults=faults, operations=operations, length_ms=length_ms, shrink_runs=shrink_runs,
        jobs=jobs, stop_after=stop_after,
    )  # fmt: skip
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
        alone = Failure(violation.promise, violation.what, None, None)
        return Report(name, 0, 0, time.monotonic() - began, (alone,), tuple(notes))
    scripts = given or _drawn(seed, runs, servers, faults, operations, length_ms)
    play = partial(_play, make=make, model=theirs, draw=draw, state=look)
    ran: list[_Ran] = []
    failed = 0
    try:
        with closing(_each(scripts, play, jobs)) as results:
            for one in results:
                ran.append(one)
                _progress(began, f"{len(ran)} of {len(scripts)} runs")
                failed += one.promise is not None
                if stop_after and failed >= stop_after:
                    break
    except KeyboardInterrupt:
        _progress(began, "")
        print(f"interrupted after {len(ran)} of {len(scripts)} runs", file=sys.stderr)
        print(_report(name, ran, _grouped(ran), notes, began), file=sys.stderr)
        raise
    failures = [_made_small(each, play, shrink_runs, began) for each in _grouped(ran)]
    _progress(began, "")
    if keep is not None:
        notes += [f"kept as {_kept(Path(keep), name, each.script)}" for each in failures if each.script is not None]
    return _report(name, ran, failures, notes, began)


def _play(script: Script, *, make: Make, model: Model, draw: Draw, state: State) -> Outcome:
    return run(script, make, model, draw, state)


def _report(name: str, ran: Sequence[_Ran], failures: Sequence[Failure], notes: Sequence[str], began: float) -> Report:
    return Report(
        name,
        len(ran),
        sum(each.acknowledged for each in ran),
        time.monotonic() - began,
        tuple(failures),
        tuple(notes),
        tuple(Undecided(each.number, each.what) for each in ran if each.undecided),
    )


def _grouped(ran: Sequence[_Ran]) -> list[Failure]:
    """Return a failure for each broken promise, with the script of its first run."""
    times = Counter(each.promise for each in ran)
    first: dict[str, _Ran] = {}
    for each in ran:
        if each.promise is not None:
            first.setdefault(each.promise, each)
    return [Failure(promise, one.what, one.script, one.number, times[promise]) for promise, one in first.items()]


# -- processes -------------------------------------------------------------------------------------------

Numbered: TypeAlias = tuple[int, Script]
Play: TypeAlias = Callable[[Script], Outcome]
_play_in_child: Play
"""A child process is forked with it, so the user's functions need not be picklable."""


def _ran(numbered: Numbered, play: Play) -> _Ran:
    number, script = numbered
    outcome = play(script)
    return _Ran(number, outcome.script, outcome.acknowledged, outcome.undecided, outcome.promise, outcome.what)


def _ran_in_child(numbered: Numbered) -> _Ran:
    return _ran(numbered, _play_in_child)


def _each(scripts: Sequence[Numbered], play: Play, jobs: int) -> Generator[_Ran, None, None]:
    """Yield the runs in the order of the scripts, whatever the number of processes."""
    if jobs == 1:
        for each in scripts:
            yield _ran(each, play)
        return
    global _play_in_child
    _play_in_child = play
    with workers(jobs, multiprocessing.get_context("fork")) as pool:
        running: deque[Future[_Ran]] = deque()
        try:
            for each in scripts:
                if len(running) == 2 * jobs:
                    yield running.popleft().result()
                running.append(pool.submit(_ran_in_child, each))
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


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


def _made_small(failure: Failure, play: Play, runs_max: int, began: float) -> Failure:
    tried = 0

    def seen() -> None:
        nonlocal tried
        tried += 1
        _progress(began, f"making the failure small, {tried} tries")

    assert failure.script is not None
    small = shrink(failure.script, same_promise(play, failure.promise, seen), runs_max=runs_max).script
    return evolve(failure, what=play(small).what, script=small, shrunk=True)


def _kept(folder: Path, name: str, script: Script) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{script.seed}.json"
    path.write_text(dumps(script))
    return path


def _progress(began: float, words: str) -> None:
    if sys.stderr.isatty() and time.monotonic() - began > 2:
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()
