"""The report of a campaign against the user's machine, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import fields, frozen

from harness.faults import Script
from harness.scripts import describe, to_json
from zab.core.plurals import counted

SCRIPT_LINES_MAX: Final = 40


@frozen
class Failure:
    """The runs that violated one invariant, and the smallest script that breaks it."""

    invariant: str
    what: str
    script: Script | None
    """The script; None if no fault is needed."""
    seed: int | None
    """The first run that failed; None if its script was not generated from a seed here."""
    runs: int = 1
    shrunk: bool = False
    """True after the search for a smaller script. After an interrupt before it, the script is the original one."""
    stopped: str = ""
    """Why the search for a smaller script ended early: "after 10 s", for example. Empty if it was complete."""
    at_ms: int | None = None
    """The virtual time at which the run of the script violated the invariant."""
    explanation: str = ""
    """The history of the clients in the run of the script, and the verdict of the checker."""
    replay: str = ""
    """The line of shell or of Python that replays the script."""
    kept: Path | None = None
    """The file of the script, if it is stored."""
    diagram: Path | None = None
    """The file with the picture of the run."""


@frozen
class Unknown:
    """A run that exceeded its budget."""

    seed: int
    what: str
    """The cost so far."""


@frozen
class Report:
    """The outcome of a search for failures. `str` gives it as text.

    machine  the name of the tested class or program
    runs     the number of runs
    seconds  the duration of the search
    notes    remarks on the search, as sentences
    unknown  the runs that exceeded their budget
    """

    machine: str
    runs: int
    requests: int
    """The acknowledged requests, or the acts of nodes, of all runs."""
    seconds: float
    failures: tuple[Failure, ...] = ()
    """One for each violated invariant, in the order of their first runs."""
    notes: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    call: str = "campaign"
    """The function that made the report."""
    unit: str = "request acknowledged"
    """What `requests` counts."""

    @property
    def failure(self) -> Failure | None:
        """The first failure."""
        return self.failures[0] if self.failures else None

    @property
    def valid(self) -> bool:
        """True if every run ended and satisfied every invariant."""
        return not self.failures and not self.unknown

    def check(self) -> Report:
        """Return the report, or raise an `AssertionError` with its text. A complete test is one call of this method."""
        if not self.valid:
            raise AssertionError(str(self))
        return self

    def as_json(self) -> dict[str, object]:
        """Return the report as values for `json.dumps`. `campaign(script=...)` reads `script` from a file."""
        return {
            "machine": self.machine,
            "valid": self.valid,
            "runs": self.runs,
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
            "failures": [_as_json(each) for each in self.failures],
            "unknown": [_as_json(each) for each in self.unknown],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        numbers = f"{counted(self.runs, 'run')}, {_counted(self.requests, self.unit)}, {self.seconds:.1f} s"
        if self.valid:
            yield f"{self.machine} valid: {numbers}"
        for place, failure in enumerate(self.failures):
            if place:
                yield ""
            yield f"{self.machine} VIOLATED: {failure.invariant}"
            yield f"  {failure.what}"
            yield f"({numbers if failure.runs == 1 else f'{failure.runs} of {numbers}'})"
            yield from _how_to_see(failure, self.call)
        if self.unknown and not self.failures:
            yield f"{self.machine} UNKNOWN in {len(self.unknown)} of {counted(self.runs, 'run')}"
            yield f"({numbers})"
        for each in self.unknown:
            yield f"UNKNOWN with seed {each.seed}: {each.what}"
        if self.unknown and not self.failures:
            yield _again(self.unknown[0].seed, self.call)
        yield from self.notes


def _as_json(each: Failure | Unknown) -> dict[str, object]:
    """Return the attributes as JSON has them, without `shrunk`."""
    values = {name.name: getattr(each, name.name) for name in fields(type(each)) if name.name != "shrunk"}
    return {
        name: to_json(value) if isinstance(value, Script) else str(value) if isinstance(value, Path) else value
        for name, value in values.items()
    }


def _how_to_see(failure: Failure, call: str) -> Iterator[str]:
    if failure.explanation:
        yield ""
        yield failure.explanation
    if failure.script is None:
        yield "No fault is needed: two machines and some requests, in one process, show the violation."
        return
    if failure.shrunk:
        yield ""
        if failure.stopped:
            yield f"The smallest script found (shrinking stopped {failure.stopped}; a smaller one may fail, too):"
        else:
            yield "The smallest script that fails:"
        lines = describe(failure.script).splitlines()
        yield from ("  " + line for line in lines[:SCRIPT_LINES_MAX])
        if len(lines) > SCRIPT_LINES_MAX:
            yield f"  ... {counted(len(lines) - SCRIPT_LINES_MAX, 'more line')}, in the file below"
        yield ""
    if failure.replay:
        yield f"Replay it: {failure.replay}"
    if failure.kept is not None:
        yield f"The script is stored: {failure.kept}"
    if failure.diagram is not None:
        yield f"The picture: {failure.diagram.resolve().as_uri()}"
    if failure.seed is not None:
        yield _again(failure.seed, call)


def _again(seed: int, call: str) -> str:
    return f"The whole run again, with the same arguments: {call}(..., seed={seed}, runs=1)"


def _counted(number: int, unit: str) -> str:
    word, _, rest = unit.partition(" ")
    return f"{counted(number, word)} {rest}".rstrip()
