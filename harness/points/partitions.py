"""Situations that must occur if brokers replicate partitions. `harness.checkers.partitions.keeper` notices them."""

from __future__ import annotations

from typing import Final

from harness.points.table import PREFIX, Point

POINTS: Final[tuple[Point, ...]] = (
    Point("leader knows less", "a new leader's high watermark is behind the newest one", 50),
    Point("logs part", "a new leader lacks records that another replica has", 50),
    Point("tail cut", "a follower truncates records that its leader lacks", 50),
    Point("two leaders", "a leader appends records while the store names another leader", 50),
    Point(
        "joins while it is written", "a replica joins the ISR while some of its leader's records are not committed", 50
    ),
    Point("alone in sync", "only one of several replicas is in sync", 50),
    Point("elected unclean", "a replica outside of the ISR is elected", 200),
    Point("records go", "a log start advances, by retention or DeleteRecords", 50),
    Point("power takes records", "a broker lacks records after a power failure", 500),
    Point("in sync without them", "a member of the ISR has lost committed records on its disk", 50),
)
NAMES: Final = frozenset(point.name for point in POINTS)


def counted_as(name: str) -> str:
    assert name in NAMES, name
    return PREFIX + name
