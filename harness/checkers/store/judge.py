"""The verdict on a history of the store: every promise by itself, and then all of it at once.

First the promises, which say in words what was wrong for whom. If they were kept, whether there is one order in which
everything took effect at one instant of its time (`harness.checkers.linear`): with its proof, or open.
"""

from __future__ import annotations

from attrs import frozen

from harness.checkers import linear
from harness.checkers.linear.decide import BUDGET
from harness.checkers.linear.znodes import Znodes
from harness.checkers.store.case import Case
from harness.checkers.store.linearize import operations
from harness.checkers.store.promises import Kept, kept
from harness.history import History

LINEARIZABLE = "writes and synced reads are linearizable"


@frozen
class Verdict:
    store: Kept
    linear: linear.Verdict | None
    """None: a promise was broken before it came to that."""

    @property
    def held(self) -> bool:
        """Undecided is not held."""
        return self.store.held and isinstance(self.linear, linear.Legal)

    @property
    def undecided(self) -> bool:
        return isinstance(self.linear, linear.Undecided)

    @property
    def promise(self) -> str | None:
        """The first that was broken, or could not be judged."""
        return self.store.promise if not self.store.held else None if self.held else LINEARIZABLE

    @property
    def what(self) -> str:
        return self.store.what if not self.store.held else "" if self.held else str(self.linear)

    def __str__(self) -> str:
        if not self.store.held:
            return str(self.store)
        return f"{self.store}\n{self.linear}"


def judge(history: History, budget: int = BUDGET) -> Verdict:
    case = Case.of(history)
    promises = kept(case)
    if not promises.held:
        return Verdict(promises, None)
    made = operations(case)
    return Verdict(promises, linear.check(made, Znodes.of(made.operations), budget))
