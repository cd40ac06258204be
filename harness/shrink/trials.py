"""Scripts as lists of items, and trials of scripts: no script is run twice, and the budget limits their number."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import NewType, TypeAlias

from attrs import evolve

from harness.faults import Fault, Op, Script

Item: TypeAlias = Fault | Op

Moment = NewType("Moment", int)
"""A time in ms. Its own type excludes a bool, which would say only that the invariant was violated."""
Broke: TypeAlias = Callable[[Script], Moment | None]
"""Run a script, and return the time at which it violated the invariant, or None."""


class Stop(enum.Enum):
    """Why a search ended before it had tried all that it would try."""

    RUNS = "runs"
    SECONDS = "seconds"
    INTERRUPT = "interrupt"


def items_of(script: Script) -> list[Item]:
    """Return the faults and operations of a script in the order of time."""
    return sorted([*script.ops, *script.faults], key=lambda item: item.at)


def made_of(script: Script, chosen: Sequence[Item]) -> Script:
    """Return the script with these of its items only."""
    kept = {id(item) for item in chosen}
    return _with_items(script, lambda item: id(item) in kept)


def until(script: Script, at_ms: int) -> Script:
    """Return the script up to this time."""
    return evolve(_with_items(script, lambda item: item.at <= at_ms), length_ms=at_ms + 1)


def _with_items(script: Script, kept: Callable[[Item], bool]) -> Script:
    return evolve(script, faults=tuple(filter(kept, script.faults)), ops=tuple(filter(kept, script.ops)))


class Trials:
    def __init__(self, broke: Broke, runs_max: int, seconds_max: float = inf) -> None:
        self._broke = broke
        self._runs_max = runs_max
        self._until = time.monotonic() + seconds_max
        self._known: dict[str, Moment | None] = {}
        self.runs: dict[str, int] = {}
        """The number of runs of each step."""
        self.step = ""
        self.stopped: Stop | None = None
        """Why no script is run any more. The smallest script so far is the result."""

    def know(self, script: Script, moment: Moment) -> None:
        """Note the time at which a script violated the invariant before the search."""
        self._known[repr(script)] = moment

    @property
    def over(self) -> bool:
        """True if no script is run any more."""
        if self.stopped is None:
            self.stopped = self._spent()
        return self.stopped is not None

    def _spent(self) -> Stop | None:
        if sum(self.runs.values()) >= self._runs_max:
            return Stop.RUNS
        return Stop.SECONDS if time.monotonic() >= self._until else None

    def broke(self, script: Script, *, late: bool = False) -> Moment | None:
        """Return the time of the violation, or None. A script is not tried after the budget is spent: None.

        late    try the script also after the budget of time is spent
        """
        key = repr(script)
        if key not in self._known:
            if self.over and not (late and self.stopped is Stop.SECONDS and self._spent() is not Stop.RUNS):
                return None
            self.runs[self.step] = self.runs.get(self.step, 0) + 1
            try:
                self._known[key] = self._broke(script)
            except KeyboardInterrupt:
                self.stopped = Stop.INTERRUPT
                return None
        return self._known[key]

    def fails(self, script: Script) -> bool:
        return self.broke(script) is not None

    def valid(self, script: Script) -> bool:
        """Return True if the script was tried and did not fail."""
        return self.broke(script) is None and repr(script) in self._known
