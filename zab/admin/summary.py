"""Summaries of repeated measurements: count, sum, and quantiles of the recent values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

RECENT_MAX: Final = 512
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)


class Summary:
    """Count, sum, minimum and maximum of all values, and quantiles of the last `RECENT_MAX`. All are 0 at first."""

    __slots__ = ("count", "least", "most", "recent", "total")

    def __init__(self) -> None:
        self.clear()

    @classmethod
    def of(cls, count: int, total: float, most: float, recent: Iterable[float]) -> Summary:
        """Make a summary of values that were counted elsewhere. The minimum covers only `recent`, the latest values."""
        made = cls()
        made.count, made.total, made.most = count, total, most
        made.recent.extend(recent)
        made.least = min(made.recent, default=0.0)
        return made

    def clear(self) -> None:
        self.count = 0
        self.total = self.least = self.most = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT_MAX)

    def add(self, value: float) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value)
        self.count += 1
        self.total += value
        self.recent.append(value)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantiles(self, wanted: Iterable[float] = QUANTILES) -> list[float]:
        values = sorted(self.recent)
        return [values[min(len(values) - 1, int(share * len(values)))] if values else 0.0 for share in wanted]
