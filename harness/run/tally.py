"""The sums over several runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from attrs import field, fields, frozen

from harness.faults import Script
from harness.outcome import Outcome
from harness.run.plan import Plan

Failed = TypeVar("Failed")


@frozen
class Failure:
    """A run that violated an invariant. `number` is its number in its plan, `replay` the command that repeats it."""

    number: int
    script: Script
    invariant: str
    what: str
    at_ms: int
    replay: str


@frozen
class Unknown:
    """A run that exceeded its budget, and its cost until then."""

    number: int
    seed: int
    voters: int
    what: str
    replay: str


@frozen
class Tally:
    """The sums over several runs."""

    runs: int = 0
    failures: tuple[Failure, ...] = ()
    events: int = 0
    simulated_ms: int = 0
    committed: int = 0
    acknowledged: int = 0
    epochs: int = 0
    core_seconds: float = 0.0
    recovered_ms_max: int = 0
    counts: dict[str, int] = field(factory=dict)
    unknown: tuple[Unknown, ...] = ()
    overlaps: frozenset[tuple[str, str]] = frozenset()

    def __add__(self, other: Tally) -> Tally:
        sums = {each.name: getattr(self, each.name) for each in fields(Tally)}
        for name, value in sums.items():
            more = getattr(other, name)
            match value:
                case dict():
                    sums[name] = {key: value.get(key, 0) + more.get(key, 0) for key in value | more}
                case frozenset():
                    sums[name] = value | more
                case _:
                    sums[name] = max(value, more) if name == "recovered_ms_max" else value + more
        return Tally(**sums)


def tally(plan: Plan, number: int, outcome: Outcome, core_seconds: float) -> Tally:
    script = outcome.script
    replay = plan.replay_line(script.seed, script.voters)
    failures: tuple[Failure, ...] = ()
    if outcome.invariant is not None:
        failures = (Failure(number, script, outcome.invariant, outcome.what, outcome.at_ms, replay),)
    unknown: tuple[Unknown, ...] = ()
    if outcome.unknown:
        unknown = (Unknown(number, script.seed, script.voters, outcome.what, replay),)
    return Tally(
        1,
        failures,
        outcome.events,
        outcome.simulated_ms,
        outcome.committed,
        outcome.acknowledged,
        outcome.elections,
        core_seconds,
        outcome.recovered_ms,
        dict(outcome.counts),
        unknown,
        outcome.overlaps,
    )


def grouped(failures: Iterable[Failed], violated: Callable[[Failed], Hashable]) -> list[tuple[Failed, int]]:
    """Group failures by their violation. Return the first failure of each group, and the size of the group."""
    groups: dict[Hashable, list[Failed]] = {}
    for each in failures:
        groups.setdefault(violated(each), []).append(each)
    return [(group[0], len(group)) for group in groups.values()]
