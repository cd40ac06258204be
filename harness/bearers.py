"""Producers with transactions, and what happens to brokers meanwhile, in the profile that leads to their ends."""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults import (
    BounceBroker,
    Consume,
    CreateTopic,
    CutBroker,
    KillBroker,
    Op,
    PartBrokers,
    PauseBroker,
    Replication,
    Transact,
)
from harness.script.chance import Draw

FATES = ("commits", "commits", "aborts", "vanishes")
TOPIC = 8
"""All of it is written in transactions."""


def transactions(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Two names, each in the midst of something when a leader, a coordinator or somebody in sync goes."""
    ops: list[Op] = [Replication(0, "cache", "fetched", "leader", 2, draw.upto(200, 500))]
    ops += [CreateTopic(200, TOPIC, 2, 3), Consume(700, 1, TOPIC, 0), Consume(700, 2, TOPIC, 1)]
    for at in range(700, length_ms - 100, draw.upto(120, 220)):
        fate = FATES[draw.upto(0, len(FATES) - 1)]
        ops.append(Transact(at + draw.upto(0, 50), draw.upto(1, 2), TOPIC, 0, 1, draw.upto(1, 2), fate))
    at = 900 + draw.upto(0, 300)
    while at < length_ms - 100:
        who, away = draw.upto(1, 3), draw.upto(50, 500)
        troubles: tuple[Op, ...] = (
            BounceBroker(at, who),
            KillBroker(at, away, who),
            PauseBroker(at, away, who),
            CutBroker(at, away, who),
            PartBrokers(at, away, who, who % 3 + 1),
        )
        ops.append(troubles[draw.upto(0, len(troubles) - 1)])
        at += draw.upto(400, 900)
    return ops
