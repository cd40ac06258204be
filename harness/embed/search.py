"""Run many scripts against a system of the user, shrink each kind of failure, and report it.

A system is a state machine (`harness.embed.runs`) or a program (`harness.program.runs`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from attrs import evolve, frozen

from harness.embed.report import Failure, Report, Unknown
from harness.faults import Script
from harness.outcome import Outcome
from harness.report.diagram import page, read
from harness.report.summary import summary
from harness.run.runner import spread
from harness.run.tally import grouped
from harness.scripts import dumps
from harness.shrink import Stop, same_invariant, shrink
from harness.shrink.trials import until
from harness.worlds import Run
from zab.core.plurals import counted

Numbered: TypeAlias = tuple[int, Script]
"""A script and the seed that it was generated from."""


@frozen
class Ran:
    """The part of an outcome that the report needs. It is sent between processes."""

    number: int
    script: Script
    acknowledged: int
    unknown: bool
    invariant: str | None
    what: str
    at_ms: int
    explanation: str


def as_ran(number: int, outcome: Outcome) -> Ran:
    names = ("acknowledged", "unknown", "invariant", "what", "at_ms", "explanation")
    return Ran(number, outcome.script, *(getattr(outcome, name) for name in names))


def _ran(run: Run, numbered: Numbered) -> Ran:
    number, script = numbered
    return as_ran(number, run(script))


@frozen
class Subject:
    """What a campaign runs, and how its report names it."""

    name: str
    run: Run
    line: Callable[[Script, Path | None], str]
    """Returns the line that replays a script, which may be stored in a file."""
    call: str
    """The Python function of the campaign, for the line that generates a script again."""
    unit: str
    """What `Outcome.acknowledged` counts."""
    simpler: Callable[[Script, int], Iterable[Script]] = lambda script, at_ms: ()
    """Returns much simpler scripts that may fail alike, given a script and the time at which it fails.

    The first of them that does fail is shrunk in place of the original."""
    explains_traced: bool = False
    """True if only a traced run has an explanation."""


@frozen
class Limits:
    """The limits of a campaign, and the files that it writes; see `harness.campaign`."""

    jobs: int = 1
    stop_after: int = 1
    shrink_runs: int = 150
    shrink_seconds: float = 60.0
    keep: str | Path | None = None
    diagram: str | Path | None = None


def search(
    subject: Subject, scripts: Sequence[Numbered], limits: Limits, began: float, notes: Sequence[str], *, seeded: bool
) -> Report:
    """Run all scripts, and shrink one script of each kind of failure.

    `seeded`: the scripts were generated from their numbers.
    """
    ran: list[Ran] = []
    failed = 0
    try:
        with closing(spread(partial(_ran, subject.run), scripts, limits.jobs)) as results:
            for done in results:
                ran.append(done)
                _progress(began, f"{len(ran)} of {len(scripts)} runs")
                failed += done.invariant is not None
                if limits.stop_after and failed >= limits.stop_after:
                    break
    except KeyboardInterrupt:
        _progress(began, "")
        print(f"interrupted after {len(ran)} of {len(scripts)} runs", file=sys.stderr)
        print(report(subject, ran, failures_of(ran), notes, began), file=sys.stderr)
        raise
    failures = [_shrunk(each, subject, limits, began) for each in failures_of(ran)]
    _progress(began, "")
    if not seeded:
        failures = [evolve(each, seed=None) for each in failures]
    pictures = _numbered(limits.diagram, len(failures))
    failures = [_stored(each, subject, limits.keep, picture) for each, picture in zip(failures, pictures, strict=True)]
    return report(subject, ran, failures, notes, began)


def replayed(subject: Subject, script: Script, file: Path | None, diagram: str | Path | None, began: float) -> Report:
    """Run one script, and do not shrink it. The picture is drawn also if every invariant holds."""
    outcome = subject.run(script, trace=diagram is not None or subject.explains_traced)
    one = as_ran(outcome.script.seed, outcome)
    line = subject.line(outcome.script, file)
    failures = [evolve(each, seed=None, replay=line) for each in failures_of([one])]
    if diagram is not None:
        draw(Path(diagram), outcome, subject.name, line)
        failures = [evolve(each, diagram=Path(diagram)) for each in failures]
    return report(subject, [one], failures, [], began)


def report(
    subject: Subject, ran: Sequence[Ran], failures: Sequence[Failure], notes: Sequence[str], began: float
) -> Report:
    return Report(
        subject.name,
        len(ran),
        sum(each.acknowledged for each in ran),
        time.monotonic() - began,
        tuple(failures),
        tuple(notes),
        tuple(Unknown(each.number, each.what) for each in ran if each.unknown),
        subject.call,
        subject.unit,
    )


def failures_of(ran: Sequence[Ran]) -> list[Failure]:
    """Return a failure for each violated invariant, with the script of its first run."""
    failed = [each for each in ran if each.invariant is not None]
    return [
        Failure(
            one.invariant or "", one.what, one.script, one.number, runs, explanation=one.explanation, at_ms=one.at_ms
        )
        for one, runs in grouped(failed, lambda each: each.invariant)
    ]


# -- a failure -----------------------------------------------------------------------------------------


def _shrunk(failure: Failure, subject: Subject, limits: Limits, began: float) -> Failure:
    """Return the failure of the smallest script that was found in time.

    The first run cuts all that comes after the violation. It takes place however short the time is.
    """
    tried = 0
    last: dict[Script, Outcome] = {}

    def play(script: Script) -> Outcome:
        nonlocal tried
        tried += 1
        _progress(began, f"shrinking the failure, {tried} tries")
        outcome = subject.run(script)
        if outcome.invariant == failure.invariant:
            last[script] = outcome
        return outcome

    original, at_ms = failure.script, failure.at_ms
    assert original is not None
    assert at_ms is not None
    broke = same_invariant(play, failure.invariant)
    ends = time.monotonic() + limits.shrink_seconds
    start, interrupted = original, False
    try:
        if limits.shrink_runs and at_ms + 1 < original.length_ms:
            shorter = until(original, at_ms)
            if broke(shorter) is not None:
                start = shorter
        for script in islice(subject.simpler(original, at_ms), limits.shrink_runs // 2):
            if time.monotonic() >= ends:
                break
            if broke(script) is not None:
                start = script
                break
    except KeyboardInterrupt:
        interrupted = True
    found, stopped = start, Stop.INTERRUPT if interrupted else None
    if not interrupted:
        begins_at_ms = at_ms if start == original else last[start].at_ms
        runs_max, left_s = max(0, limits.shrink_runs - tried), max(0.0, ends - time.monotonic())
        shrunk = shrink(start, broke, at_ms=begins_at_ms, runs_max=runs_max, seconds_max=left_s)
        found, stopped = shrunk.script, shrunk.stopped
    failure = evolve(failure, shrunk=True, stopped=_stop_in_words(stopped, limits))
    outcome = last.get(found)
    if outcome is None:
        return failure
    return evolve(failure, what=outcome.what, script=found, explanation=outcome.explanation, at_ms=outcome.at_ms)


def _stop_in_words(stop: Stop | None, limits: Limits) -> str:
    match stop:
        case None:
            return ""
        case Stop.RUNS:
            return f"after {counted(limits.shrink_runs, 'run')}"
        case Stop.SECONDS:
            return f"after {limits.shrink_seconds:g} s"
        case Stop.INTERRUPT:
            return "by Ctrl-C"


def _stored(failure: Failure, subject: Subject, keep: str | Path | None, picture: Path | None) -> Failure:
    """Store the script and draw the run, if requested, and add the line that replays it."""
    assert failure.script is not None
    file = None if keep is None else _kept(Path(keep), subject.name, failure.script)
    line = subject.line(failure.script, file)
    if picture is not None or subject.explains_traced:
        outcome = subject.run(failure.script, trace=True)
        if picture is not None:
            draw(picture, outcome, subject.name, line)
        failure = evolve(failure, explanation=outcome.explanation)
    return evolve(failure, replay=line, kept=file, diagram=picture)


def draw(path: Path, outcome: Outcome, name: str, line: str) -> None:
    assert outcome.trace is not None
    lines = summary(outcome, read(outcome.trace, outcome.script.servers))
    title = f"{name} is valid" if outcome.valid else f"{name}: {outcome.invariant or 'unknown'}"
    path.write_text(page(outcome, line, title=title, summary=lines))


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
