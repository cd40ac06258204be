"""Situations that must occur somewhere in a campaign. One that never does means that faults miss what they are for."""

from harness.points.table import POINTS, Point, missed

__all__ = ["POINTS", "Point", "missed"]
