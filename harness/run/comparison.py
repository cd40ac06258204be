"""Run one script in several worlds. If the verdicts differ, a simulation is too lenient, or a driver has a bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import frozen

from harness.faults import Script
from harness.outcome import Outcome
from harness.worlds import WORLDS, World, world


@frozen
class Comparison:
    """The outcomes in all worlds. The script lacks the kinds of items that one of the worlds does not support."""

    script: Script
    left_out: tuple[str, ...]
    outcomes: tuple[tuple[str, Outcome], ...]

    @property
    def valid(self) -> bool:
        return all(outcome.valid for _, outcome in self.outcomes)

    @property
    def agree(self) -> bool:
        return len({outcome.invariant for _, outcome in self.outcomes}) == 1

    def differences(self) -> Iterator[str]:
        """Describe each world that differs from the first one."""
        (name, first), *others = self.outcomes
        for other, outcome in others:
            if outcome.invariant != first.invariant:
                yield f"{name}: {_verdict(first)}; {other}: {_verdict(outcome)}"


def _verdict(outcome: Outcome) -> str:
    return "valid" if outcome.valid else f"{outcome.invariant or 'unknown'}: {outcome.what}"


def compare(
    script: Script,
    names: Iterable[str] = WORLDS,
    *,
    begins: Callable[[str], object] = lambda name: None,
    chosen: Callable[[str], World] = world,
) -> Comparison:
    there = [chosen(name) for name in names]
    left_out: set[str] = set()
    for each in there:
        playable = each.playable(script)
        script = playable.script
        left_out.update(playable.skipped)
    outcomes = []
    for each in there:
        begins(each.name)
        outcomes.append((each.name, each.run(script)))
    return Comparison(script, tuple(sorted(left_out)), tuple(outcomes))
