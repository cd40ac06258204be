"""The two clocks of a server. Both are its own, and both can be wrong.

The monotonic one is what its node is told as `now`: it may run at another rate, or stand still, and never goes
back. The wall clock is what it writes into transactions: it may be set to anything at any time.
"""

from __future__ import annotations

from typing import Any, Final

from harness.worlds.common import Common
from zab.core.zxid import Millis

BEGINS_MS: Final = 1_700_000_000_000
"""What a wall clock that is right shows when the run begins."""


class Clock:
    __slots__ = ("_many", "_one", "_rates", "_shown", "_since", "_world", "plain", "wrong_ms")

    def __init__(self, world: Common[Any]) -> None:
        self._world = world
        self._rates: list[int] = []
        self._one, self._many = 1, 1
        self._since = self._shown = 0
        self.plain = True
        """It has never been wrong."""
        self.wrong_ms = 0
        """How much the wall clock is ahead."""

    # -- monotonic ---------------------------------------------------------------------------------------

    def now_us(self) -> int:
        now: int = self._world.now
        return now if self.plain else self._shown + (now - self._since) * self._one // self._many

    def when(self, shows_ms: Millis) -> int | None:
        """The time of the world at which this clock shows that; None while it stands still."""
        if self.plain:
            return shows_ms * 1_000
        if not self._one:
            return None
        return self._since - -(shows_ms * 1_000 - self._shown) * self._many // self._one

    def run_at(self, percent: int) -> None:
        """From now on, and besides whatever else is wrong with its rate. 0: it stands still."""
        self._rates.append(percent)
        self._turn()

    def run_no_more_at(self, percent: int) -> None:
        self._rates.remove(percent)
        self._turn()

    def _turn(self) -> None:
        self._shown, self._since, self.plain = self.now_us(), self._world.now, False
        self._one, self._many = 1, 1
        for percent in self._rates:
            self._one *= percent
            self._many *= 100

    # -- the wall ----------------------------------------------------------------------------------------

    def wall_ms(self) -> int:
        return BEGINS_MS + self._world.now // 1_000 + self.wrong_ms

    # -- the end -----------------------------------------------------------------------------------------

    def mend(self) -> None:
        """It goes right from now on. What it has missed, or is ahead, stays."""
        if self._rates:
            self._rates.clear()
            self._turn()
        self.wrong_ms = 0
