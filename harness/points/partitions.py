"""Situations that must occur where brokers replicate partitions. `harness.checkers.partitions.keeper` sees them."""

from __future__ import annotations

from typing import Final

from harness.points.table import PREFIX, Point

POINTS: Final[tuple[Point, ...]] = (
    Point("leader knows less", "who begins to lead does not know of all that is committed", 50),
    Point("logs part", "who begins to lead lacks what another replica holds", 50),
    Point("tail cut", "a follower cuts records that its leader does not have", 50),
    Point("two leaders", "a leader writes what it is given, and the store says that another one leads", 50),
    Point("joins while it is written", "a replica joins the ISR while not all that its leader has is committed", 50),
    Point("alone in sync", "of several replicas one is in sync", 50),
    Point("elected unclean", "somebody leads who was not in sync", 200),
    Point("records go", "a log begins later than it did, since it was too long or somebody wished it", 50),
    Point("power takes records", "a broker lacks records when its power is back", 500),
    Point("in sync without them", "who is in sync has lost committed records to its disk", 50),
)
NAMES: Final = frozenset(point.name for point in POINTS)


def counted_as(name: str) -> str:
    assert name in NAMES, name
    return PREFIX + name
