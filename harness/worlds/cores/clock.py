"""The two clocks of a server, both of which faults can make wrong.

The monotonic clock provides `now` to the node. It may run at another rate or freeze, and it never goes back. The wall
clock provides the time that a server writes into transactions. It may be set to any time at any moment.
"""

from __future__ import annotations

from typing import Final

from harness.worlds.common import Common
from zab.core.zxid import Millis

BEGINS_MS: Final = 1_700_000_000_000
"""The time that a correct wall clock shows at the beginning of a run."""


class Clock:
    __slots__ = ("_denominator", "_numerator", "_rates", "_shown", "_since", "_world", "plain", "wrong_ms")

    def __init__(self, world: Common) -> None:
        self._world = world
        self._rates: list[int] = []
        self._numerator, self._denominator = 1, 1
        self._since = self._shown = 0
        self.plain = True
        """True if no fault has ever changed the rate of the monotonic clock."""
        self.wrong_ms = 0
        """The lead of the wall clock over the right time."""

    # -- monotonic ---------------------------------------------------------------------------------------

    def now_us(self) -> int:
        now: int = self._world.now
        return now if self.plain else self._shown + (now - self._since) * self._numerator // self._denominator

    def when(self, shows_ms: Millis) -> int | None:
        """Return the virtual time at which the monotonic clock shows this time; None while the clock is frozen."""
        if self.plain:
            return shows_ms * 1_000
        if not self._numerator:
            return None
        return self._since - -(shows_ms * 1_000 - self._shown) * self._denominator // self._numerator

    def run_at(self, percent: int) -> None:
        """Change the rate to this percentage, on top of other changes of the rate. 0 freezes the clock."""
        self._rates.append(percent)
        self._turn()

    def stop_running_at(self, percent: int) -> None:
        self._rates.remove(percent)
        self._turn()

    def _turn(self) -> None:
        self._shown, self._since, self.plain = self.now_us(), self._world.now, False
        self._numerator, self._denominator = 1, 1
        for percent in self._rates:
            self._numerator *= percent
            self._denominator *= 100

    # -- the wall ----------------------------------------------------------------------------------------

    def wall_ms(self) -> int:
        return BEGINS_MS + self._world.now // 1_000 + self.wrong_ms

    # -- the end -----------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Let both clocks run right from now on. The monotonic clock keeps its lead or lag."""
        if self._rates:
            self._rates.clear()
            self._turn()
        self.wrong_ms = 0
