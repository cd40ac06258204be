"""The loop that executes the effects of a core: of the replica manager or of a coordinator."""

from __future__ import annotations

from collections.abc import Callable


class TurnLoop:
    """Runs turns, one at a time.

    An effect may call the core, cause new effects, and call `run` during the turn. This nested call returns at once,
    and the current turn executes the new effects.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        """Takes the effects of the core and executes them."""
        self.running = False
        """True during a turn."""
        self._again = False
        """True if the current turn must check the core for effects once more."""

    def run(self) -> bool:
        """Run a turn. Return False if one is in progress, which will execute the effects."""
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
