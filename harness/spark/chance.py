"""The chance that a fault has nothing to do with a failure, corrected for the number of pairs that are compared.

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
    """Return the probability of a deviation at least as large, on either side."""
    return math.erfc(abs(z) / math.sqrt(2))


def holm(alone: Sequence[float]) -> list[float]:
    """Correct the p-values of single pairs for their number."""
    among = [0.0] * len(alone)
    least = 0.0
    for nth, place in enumerate(sorted(range(len(alone)), key=lambda place: alone[place])):
        least = max(least, min(1.0, (len(alone) - nth) * alone[place]))
        among[place] = least
    return among


def corrected(odds: Rows) -> list[dict[str, Any]]:
    """Add the `chance` of each pair, from its ratio and its interval."""
    alone = []
    for row in odds:
        error = (math.log(row["high"]) - math.log(row["low"])) / (2 * Z)
        alone.append(two_sided(math.log(row["odds_ratio"]) / error))
    return [{**row, "chance": chance} for row, chance in zip(odds, holm(alone), strict=True)]
