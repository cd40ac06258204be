"""Counters of one candidate for controller, over all its terms."""

from __future__ import annotations

from collections import Counter
from typing import Final

from attrs import define, field, frozen

WINDOW: Final = 1_000
"""The number of newest events whose longest wait is reported."""


@frozen
class EventTime:
    """The time in milliseconds that one event waited in the queue, and that its processing took."""

    waited: float
    worked: float


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
    recent: list[EventTime] = field(factory=list)
    """The times of the newest events; at most twice `WINDOW`."""
    elections: int = 0
    """The number of leader elections of partitions in the terms that have ended."""
    unclean_elections: int = 0
    """The number of unclean leader elections in the terms that have ended."""
    damaged: int = 0
    """The number of reports of nodes that cannot be parsed."""

    @property
    def recent_waited_max(self) -> float:
        return max((each.waited for each in self.recent[-WINDOW:]), default=0.0)

    def processed(self, kind: str, waited_ms: float, worked_ms: float) -> None:
        self.events[kind] += 1
        self.waited_ms += waited_ms
        self.worked_ms += worked_ms
        self.recent.append(EventTime(waited_ms, worked_ms))
        if len(self.recent) > 2 * WINDOW:
            del self.recent[:WINDOW]
