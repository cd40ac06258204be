"""The loop that carries out the effects of a pure core, for the replica manager and the coordinators."""

from __future__ import annotations

from collections.abc import Callable


class TurnLoop:
    """Runs turns: one at a time, each until the core has no effects left.

    An effect may call the core, which has new effects then. Its `run` does not nest: the turn under way takes them.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        """Takes the effects of the core and carries them out."""
        self.running = False
        """A turn is under way."""
        self._again = False
        """The turn under way has to look at the core once more."""

    def run(self) -> bool:
        """Run a turn. Return False if one is under way, which looks again before it ends."""
        self._again = True
        if self.running:
            return False
        self.running = True
        try:
            while self._again:
                self._again = False
                self._act()
        finally:
            self.running = False
        return True
