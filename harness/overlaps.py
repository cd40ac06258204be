"""The pairs of kinds of faults that overlapped in time: which combinations a campaign has tried."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement

from harness.recoveries import Hit

Pair = tuple[str, str]
"""Two kinds of faults in alphabetical order."""


def overlaps(hits: Iterable[Hit]) -> frozenset[Pair]:
    """Return the pairs of kinds of which one struck while the other lasted."""
    found: set[Pair] = set()
    lasting: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: hit.begin):
        lasting = [other for other in lasting if other.end >= hit.begin]
        found.update((min(hit.kind, other.kind), max(hit.kind, other.kind)) for other in lasting)
        lasting.append(hit)
    return frozenset(found)


def summary(found: frozenset[Pair]) -> str:
    """Describe how many of the possible pairs overlapped, and some that did not. Empty if fewer than two kinds did."""
    kinds = sorted({kind for pair in found for kind in pair})
    if len(kinds) < 2:
        return ""
    possible = list(combinations_with_replacement(kinds, 2))
    missing = [f"{one} with {other}" for one, other in possible if (one, other) not in found]
    some = f"; never {', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''}" if missing else ""
    return f"{len(found):,} of {len(possible):,} pairs of faults overlapped{some}"
