"""The verdict on a history with its proof: a legal order, or a few operations that have none."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from harness.checkers.linear.history import Operation


@frozen
class Legal:
    order: tuple[int, ...]
    """The ids of the operations in the order of their effects, without operations that never took effect."""
    by: str
    steps: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"legal, by {self.by}, {self.steps} steps", *self.notes))


@frozen
class Illegal:
    core: tuple[Operation, ...]
    """The operations that have no legal order. If `minimal`, none of them can be dropped."""
    why: str
    by: str
    steps: int
    minimal: bool
    """False if the budget ended during the reduction of the core; the core is still a proof."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        core = [f"  {op}" for op in self.core]
        return "\n".join((f"illegal, by {self.by}, {self.steps} steps: {self.why}", *core, *self.notes))


@frozen
class Unknown:
    """The budget did not suffice. This verdict does not count as passed."""

    spent: int
    open: tuple[str, ...]
    """Descriptions of the undecided parts, with their numbers of operations."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((f"unknown after {self.spent} steps: {'; '.join(self.open)}", *self.notes))


Verdict: TypeAlias = Legal | Illegal | Unknown
