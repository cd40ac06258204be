"""Generate a script for a program from a seed: the speed of its world, and the faults of its nodes and servers.

Each run has a random few of the kinds of faults, with its own weights, as in `harness.draw`. The durations suit
sessions with timeouts of seconds, unlike those of `harness.draw`, whose runs last for seconds.
"""

from __future__ import annotations

from random import Random
from typing import Final

from attrs import evolve

from harness import faults
from harness.faults import Fault, Script
from harness.script.faults import LOSS
from harness.script.names import ACTIVE, SHAPES
from harness.script.nodes import NODE_KINDS
from harness.script.values import Among, Draw, Kind, Scale, Sid, Value, Who

FOR_MS: Final = Scale(200, 30_000)
DOWN_MS: Final = Scale(50, 15_000)
BY_MS: Final = Among((-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000))
_WHO: Final[dict[str, Value]] = {"server": Who()}
_PAIR: Final[dict[str, Value]] = {"source": Who(), "target": Sid()}
SERVER_KINDS: Final = (
    Kind(2.0, faults.Crash, {"down_ms": DOWN_MS, **_WHO, "loss": LOSS}),
    Kind(0.4, faults.CrashAll, {"down_ms": DOWN_MS, "loss": LOSS}),
    Kind(1.0, faults.Pause, {"for_ms": FOR_MS, **_WHO}),
    Kind(0.5, faults.Restart, {"down_ms": DOWN_MS, **_WHO}),
    Kind(1.0, faults.Isolate, {"for_ms": FOR_MS, **_WHO}),
    Kind(0.5, faults.Split, {"for_ms": FOR_MS, "shape": Among(SHAPES), **_WHO}),
    Kind(0.3, faults.Apart, {"for_ms": FOR_MS, **_PAIR}),
    Kind(0.3, faults.OneWay, {"for_ms": FOR_MS, **_PAIR}),
    Kind(0.2, faults.ClockStep, {**_WHO, "by_ms": BY_MS}),
    Kind(0.2, faults.ClockSkew, {"for_ms": FOR_MS, **_WHO, "by_ms": BY_MS}),
)
"""The faults of servers that a program of their users must survive. They never lose acknowledged data."""
SHARE: Final = 0.45
"""The probability that a run has a kind of fault."""
AIMED: Final = 0.4
"""The share of runs in which all faults are strikes of one harm."""
ENOUGH: Final = (8_000, 12_000, 15_000, 20_000)
"""The durations of pauses that outlast most sessions."""
POINTS: Final = {
    "pause": ("before step",),
    "kill": ("before request", "after request", "before reply", "before step", "after act"),
    "cut": ("before request", "after request", "after request", "before reply", "before reply"),
}
"""The moments at which each harm matters."""
NODES_ONLY: Final = 0.4
"""The share of runs without faults of servers, in which those of nodes are closer together."""


def generated(seed: int, *, machine: str, nodes: int, servers: int, faults: int, length_ms: int) -> Script:
    """Return a script with at most `faults` faults within `length_ms`."""
    draw = Draw(Random(f"program/{seed}/{servers}/{nodes}"), servers, 0)
    timing = _timing(draw)
    return Script(
        seed=seed,
        voters=servers,
        machine=machine,
        nodes=nodes,
        length_ms=length_ms,
        timing=timing,
        faults=tuple(sorted(_faults(draw, nodes, faults, length_ms), key=lambda fault: fault.at)),
    )


def _timing(draw: Draw) -> faults.Timing:
    slow = draw.chance(0.25)
    return faults.Timing(
        delay_us_min=draw.upto(50, 500),
        delay_us_max=draw.upto(600, 200_000 if slow else 5_000),
        spike_percent=draw.upto(1, 10) if draw.chance(0.25) else 0,
        spike_us_max=draw.upto(5_000, 500_000),
        fsync_us_min=draw.upto(50, 500),
        fsync_us_max=draw.upto(600, 60_000 if draw.chance(0.25) else 5_000),
        break_ms_max=draw.scale(300, 15_000),
    )


def _faults(draw: Draw, nodes: int, most: int, length_ms: int) -> list[Fault]:
    if not most:
        return []
    if draw.chance(AIMED):
        return _aimed(draw, nodes, most, length_ms)
    node_kinds = [_of(kind, nodes) for kind in NODE_KINDS]
    kinds = node_kinds if draw.chance(NODES_ONLY) else [*node_kinds, *SERVER_KINDS]
    chosen = [draw.varied(kind) for kind in kinds if draw.chance(SHARE)] or node_kinds[:1]
    found: list[Fault] = []
    at = draw.upto(0, length_ms // 4)
    for _ in range(draw.upto(1 + most // 3, most)):
        found.append(draw.one_of(chosen, at=at))
        # Some follow closely, so that a fault occurs during the recovery from the previous one.
        at = (
            draw.upto(0, length_ms - 1)
            if draw.chance(0.4)
            else min(length_ms - 1, at + draw.scale(1, length_ms // 3 + 1))
        )
    return found


def _aimed(draw: Draw, nodes: int, most: int, length_ms: int) -> list[Fault]:
    """Return strikes of one harm, mostly at the node that acts, one after the other: the servers and other nodes work.

    A pause lasts until the node's session has expired and another node has taken over. The strike after a kill or a cut
    often follows at once.
    """
    harm = draw.among(("pause", "pause", "kill", "cut"))
    points = POINTS[harm]
    found: list[Fault] = []
    at = draw.upto(length_ms // 30, length_ms // 10)
    while at < length_ms and len(found) < most:
        for_ms = draw.among(ENOUGH) if harm == "pause" else draw.scale(20, 20_000)
        node = ACTIVE if draw.chance(0.8) else draw.upto(1, nodes)
        found.append(faults.StrikeNode(at, for_ms, node, draw.upto(1, 6), draw.among(points), harm))
        at += for_ms + draw.scale(100, 8_000)
    return found


def _of(kind: Kind, nodes: int) -> Kind:
    return evolve(kind, fields={**kind.fields, "node": Among((*(ACTIVE,) * nodes, *range(1, nodes + 1)))})
