"""Counters of one candidate for controller, over all its terms."""

from __future__ import annotations

from collections import Counter
from typing import Final

from attrs import define, field

WINDOW: Final = 1_000
"""The number of newest events whose longest wait is reported."""


@define
class ControllerCounts:
    won: int = 0
    """The number of elections of this broker as controller."""
    gave_up: int = 0
    """The number of terms that ended with a failure."""
    lost: int = 0
    """The number of terms that ended because another broker was elected, or `/controller` changed."""
    failover_ms: float | None = None
    """The time from the newest election to the end of its failover; None before the first."""
    events: Counter[str] = field(factory=Counter)
    """Processed events, by type."""
    waited_ms: float = 0.0
    """The sum of all waiting times."""
    worked_ms: float = 0.0
    """The sum of all processing times."""
    recent_waited: list[float] = field(factory=list)
    """The times in milliseconds that the newest events waited in the queue; at most twice `WINDOW` of them."""
    elections: int = 0
    """The number of leader elections of partitions in the terms that have ended."""
    unclean_elections: int = 0
    """The number of unclean leader elections in the terms that have ended."""
    damaged: int = 0
    """The number of reports of nodes that cannot be parsed."""

    @property
    def recent_waited_max(self) -> float:
        return max(self.recent_waited[-WINDOW:], default=0.0)

    def processed(self, kind: str, waited_ms: float, worked_ms: float) -> None:
        self.events[kind] += 1
        self.waited_ms += waited_ms
        self.worked_ms += worked_ms
        self.recent_waited.append(waited_ms)
        if len(self.recent_waited) > 2 * WINDOW:
            del self.recent_waited[:WINDOW]
