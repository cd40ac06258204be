"""A profile generates scripts that lead to one situation, again and again, where usual scripts seldom get.

It takes a usual script and replaces its faults, and, where the situation needs it, operations, timing and knobs. All
else stays as it was drawn, so that no two of its scripts are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from harness.draw import script_from_seed
from harness.faults import Fault, Op, Script
from harness.script.values import Draw, Upto, Value

Faults: TypeAlias = Callable[[Draw, int, int], Sequence[Fault]]
"""Generates the faults from one time on; the next call follows after the gap, both in milliseconds."""
Ops: TypeAlias = Callable[[Draw, int], Sequence[Op]]
"""Generates all operations of a script of this length."""
Ranges: TypeAlias = Mapping[str, Value]


def exactly(value: int) -> Upto:
    return Upto(value, value)


TICK: Final[Ranges] = {"tick_ms": exactly(50)}
QUICK: Final[Ranges] = {name: exactly(0) for name in ("turn_us_max", "loss_percent", "spike_percent")}


def no_faults(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return ()


@frozen
class Profile:
    name: str
    what: str
    """The situation that its scripts lead to."""
    faults: Faults = no_faults
    every_ms: tuple[int, int] = (3_000, 3_000)
    """How long after the last call `faults` is called again."""
    ops: Ops | None = None
    """None: those of the usual script."""
    knobs: Ranges = TICK
    timing: Ranges = QUICK
    machine: str = "list"
    """The machine whose situation it is."""
    brokers: int = 0
    """0: as many as were drawn."""
    observers: int = 0
    """The least number of them."""
    quorums: Callable[[Draw], Mapping[str, Any]] | None = None
    """Draws groups and weights; None: a majority is a quorum."""

    def script(self, seed: int, *, voters: int, machine: str = "") -> Script:
        usual = script_from_seed(seed, voters=voters, machine=machine or self.machine)
        usual = evolve(usual, observers=max(usual.observers, self.observers), brokers=self.brokers or usual.brokers)
        draw = Draw(Random(f"profile/{self.name}/{seed}/{voters}"), voters, usual.observers)
        faults: list[Fault] = []
        at = draw.upto(300, 600)
        while at < usual.length_ms - 300:
            gap = draw.upto(*self.every_ms)
            faults += self.faults(draw, at, gap)
            at += gap
        if self.quorums is not None:
            usual = evolve(usual, **self.quorums(draw))
        return evolve(
            usual,
            knobs=evolve(usual.knobs, **draw.fields(self.knobs)),
            timing=evolve(usual.timing, **draw.fields(self.timing)),
            ops=usual.ops if self.ops is None else tuple(sorted(self.ops(draw, usual.length_ms), key=_at)),
            faults=tuple(sorted((each for each in faults if each.at < usual.length_ms), key=_at)),
        )


def _at(item: Fault | Op) -> int:
    return item.at
