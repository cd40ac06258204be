"""What a candidate for controller counts of itself, over all its reigns. Whoever shows it, reads it when asked."""

from __future__ import annotations

from collections import Counter

from attrs import define, field, frozen

WINDOW: int = 1_000
"""So many of the newest events are what is said of the recent past."""


@frozen
class Spent:
    """On one event, in milliseconds: waiting in the queue, and being dealt with."""

    waited: float
    worked: float


@define
class Counts:
    won: int = 0
    """Elections to controller."""
    gave_up: int = 0
    """Reigns that ended because something failed."""
    lost: int = 0
    """Reigns that ended because another was elected, or the node went."""
    failover_ms: float | None = None
    """From the newest election until everything was taken over and decided; None: not yet."""
    events: Counter[str] = field(factory=Counter)
    """Dealt with, by kind."""
    waited_ms: float = 0.0
    worked_ms: float = 0.0
    recent: list[Spent] = field(factory=list)
    elections: int = 0
    """Of leaders of partitions, in reigns that are over; so are the following."""
    unclean_elections: int = 0
    damaged: int = 0
    """Notes of nodes that could not be read."""

    @property
    def recent_waited_max(self) -> float:
        return max((each.waited for each in self.recent[-WINDOW:]), default=0.0)

    def dealt(self, kind: str, waited_ms: float, worked_ms: float) -> None:
        self.events[kind] += 1
        self.waited_ms += waited_ms
        self.worked_ms += worked_ms
        self.recent.append(Spent(waited_ms, worked_ms))
        if len(self.recent) > 2 * WINDOW:
            del self.recent[:WINDOW]
