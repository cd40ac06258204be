"""How likely is it that a fault has nothing to do with a failure, when as many pairs were looked at as there are?

Of forty pairs that are all chance, two lie outside their 95 % intervals. Holm's correction keeps the chance that even
one of all is taken for more at 5 %, however they depend on each other: the least likely of m pairs counts m times, the
next m - 1 times, and none counts less than the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

Rows = Sequence[dict[str, Any]]

Z: Final = 1.96
"""As wide as intervals of 95 % are."""
HARDLY: Final = 0.05


def two_sided(z: float) -> float:
    """Chance alone is at least as far from the middle, on either side."""
    return math.erfc(abs(z) / math.sqrt(2))


def holm(alone: Sequence[float]) -> list[float]:
    """Of each by itself, what it is among all."""
    among = [0.0] * len(alone)
    least = 0.0
    for nth, place in enumerate(sorted(range(len(alone)), key=lambda place: alone[place])):
        least = max(least, min(1.0, (len(alone) - nth) * alone[place]))
        among[place] = least
    return among


def corrected(odds: Rows) -> list[dict[str, Any]]:
    """With `chance` of each pair, from its ratio and its interval."""
    alone = []
    for row in odds:
        error = (math.log(row["high"]) - math.log(row["low"])) / (2 * Z)
        alone.append(two_sided(math.log(row["odds_ratio"]) / error))
    return [{**row, "chance": chance} for row, chance in zip(odds, holm(alone), strict=True)]
