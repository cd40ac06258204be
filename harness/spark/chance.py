"""The p-value of the association of a fault with a failure, corrected for the number of compared pairs.

Among forty unrelated pairs, two are outside of their 95 % intervals on average. Holm's correction keeps the probability
of even one false positive at 5 %, for any dependence between the pairs. It multiplies the least of m p-values by m, the
next one by m - 1, and so on; no corrected value is less than the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

Rows = Sequence[dict[str, Any]]

Z: Final = 1.96
"""The half width of a 95 % interval, in standard errors."""
HARDLY: Final = 0.05
"""The limit of p-values that count as significant."""


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
