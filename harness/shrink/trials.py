"""Scripts that were tried, and what came of them. Nothing is run twice, and no more is run than is allowed."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import NewType, TypeAlias

from harness.faults import Script

Moment = NewType("Moment", int)
"""In milliseconds. A type of its own: whether it broke is no answer to when it did."""
Broke: TypeAlias = Callable[[Script], Moment | None]
"""Runs a script: after how many milliseconds it broke the promise in question, or None if it did not."""


class Trials:
    def __init__(self, broke: Broke, runs_max: int, seconds_max: float = inf) -> None:
        self._broke = broke
        self._runs_max = runs_max
        self._until = time.monotonic() + seconds_max
        self._known: dict[str, Moment | None] = {}
        self.runs: dict[str, int] = {}
        """Executions, by the step that asked for them."""
        self.step = ""
        self.interrupted = False
        """True after Ctrl-C: no script is run any more, and the smallest one so far is the result."""

    @property
    def spent(self) -> int:
        return sum(self.runs.values())

    @property
    def over(self) -> bool:
        return self.interrupted or self.spent >= self._runs_max or time.monotonic() >= self._until

    def broke(self, script: Script) -> Moment | None:
        """None also when it may not be tried any more: what was not seen to fail is not believed to."""
        key = repr(script)
        if key not in self._known:
            if self.over:
                return None
            self.runs[self.step] = self.runs.get(self.step, 0) + 1
            try:
                self._known[key] = self._broke(script)
            except KeyboardInterrupt:
                self.interrupted = True
                return None
        return self._known[key]

    def fails(self, script: Script) -> bool:
        return self.broke(script) is not None

    def held(self, script: Script) -> bool:
        """It was tried, and did not fail."""
        return self.broke(script) is None and repr(script) in self._known
