"""Situations that must occur somewhere in a campaign. If one never does, the faults miss their purpose."""

from harness.points import partitions, table
from harness.points.table import POINTS, Point, missed

__all__ = ["POINTS", "Point", "missed", "points_of"]


def points_of(machine: str) -> tuple[Point, ...]:
    """Return the situations of this machine; empty for machines without budgets."""
    if machine == "partitions":
        return partitions.POINTS
    if machine not in ("list", "store"):
        return ()
    return tuple(point for point in table.POINTS if machine == "store" or not point.store)
