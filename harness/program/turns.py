"""Count the turns of Trio's loop at one virtual time: a task that never sleeps or waits lets no time pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

TURNS_MAX: Final = 50_000
"""The turns at one virtual time, in each of which every ready task takes a step. A usual program needs a dozen."""


class TurnCounter(trio.abc.Instrument):
    """Calls a function once if the loop exceeds the limit. The limit is counted, so it is the same on any machine."""

    def __init__(self, exceeded: Callable[[], None]) -> None:
        self._exceeded = exceeded
        self._turns = 0
        self.at = -1.0
        """The virtual time of the last turn, in seconds."""

    def before_io_wait(self, timeout: float) -> None:
        at = trio.current_time()
        if at != self.at:
            self.at = at
            self._turns = 0
        self._turns += 1
        if self._turns == TURNS_MAX:
            self._exceeded()
