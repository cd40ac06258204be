"""Situations that must occur somewhere in a campaign. One that never does means that faults miss what they are for."""

from harness.points import partitions, table
from harness.points.table import POINTS, Point, missed

__all__ = ["POINTS", "Point", "missed", "points_of"]


def points_of(machine: str) -> tuple[Point, ...]:
    """None where nobody has said how often what must occur."""
    if machine == "partitions":
        return partitions.POINTS
    if machine not in ("list", "store"):
        return ()
    return tuple(point for point in table.POINTS if machine == "store" or not point.store)
