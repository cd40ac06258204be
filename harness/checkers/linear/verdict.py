"""The verdict of a checker with its proof: an order, or a few operations that admit none."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harness.checkers.linear.history import Operation


@frozen
class Legal:
    order: tuple[int, ...]
    """Ids. Operations without an answer that never took effect are not in it."""
    by: str
    steps: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"legal, by {self.by}, {self.steps} steps", *self.notes))


@frozen
class Illegal:
    core: tuple[Operation, ...]
    """Already these admit no order, and nothing can be taken out of them that would not prove less."""
    why: str
    by: str
    steps: int
    minimal: bool
    """False: the budget ended while the core was made smaller. It is a proof, but not the smallest."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        core = [f"  {op}" for op in self.core]
        return "\n".join((f"illegal, by {self.by}, {self.steps} steps: {self.why}", *core, *self.notes))


@frozen
class Unknown:
    """Never to be counted as passed."""

    spent: int
    open: tuple[str, ...]
    """The objects whose histories are not decided, and how many operations each has."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"unknown after {self.spent} steps: {'; '.join(self.open)}", *self.notes))


Verdict: TypeAlias = Legal | Illegal | Unknown
