"""The profile of an ensemble with servers of Apache ZooKeeper and of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import evolve

from harness.faults import (
    Apart,
    Ask,
    Clog,
    Connect,
    Crash,
    CrashAll,
    CutLinks,
    Deaf,
    Delay,
    FailDisk,
    Fault,
    Flaky,
    FullDisk,
    Isolate,
    Leave,
    LoseDisk,
    OneWay,
    Op,
    Partition,
    Pause,
    Restart,
    SlowDisk,
    Split,
    Step,
    Swizzle,
    Vanish,
)
from harness.profiles.profile import Profile
from harness.script.values import Draw, Kind, Short, Upto, fields_of
from harness.script.workload import CLIENTS_MAX, MULTI_MAX, MULTI_STEPS, PARENTS, STEPS

LENGTH_MS: Final = 8_000
CLIENTS: Final = range(1, CLIENTS_MAX + 1)
SESSIONS_MS: Final = (1_500, 6_000, 20_000)
_WEIGHTS: Final[dict[type[Fault], float]] = {
    Crash: 3.0, CrashAll: 0.3, Restart: 0.7, Pause: 2.0, Partition: 1.5, Split: 1.0, Isolate: 2.0, Apart: 1.0, OneWay: 1.5,
    Deaf: 1.0, Clog: 1.5, Swizzle: 0.7, Delay: 0.7, Flaky: 0.7, CutLinks: 1.5, SlowDisk: 0.7, FailDisk: 0.5, FullDisk: 0.5, LoseDisk: 0.3,
}  # fmt: skip
_LASTING: Final = Short(20, 4_000)
"""A JVM starts in seconds, and servers notice a lost peer after a second."""


def _kind(fault: type[Fault], weight: float) -> Kind:
    fields = fields_of(fault)
    return Kind(weight, fault, {name: _LASTING if name == "for_ms" else value for name, value in fields.items()})


_KINDS: Final = [_kind(fault, weight) for fault, weight in _WEIGHTS.items()]


def any_fault(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    first: Fault = draw.one_of(_KINDS, at=at)
    return (first, evolve(draw.one_of(_KINDS, at=at), at=at + draw.short(1, gap))) if draw.chance(0.3) else (first,)


def busy_clients(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Let all clients ask steadily. They move between servers of both kinds, and some of their sessions expire."""
    ops: list[Op] = [Connect(0, client, draw.server(), draw.among(SESSIONS_MS)) for client in CLIENTS]
    ops += [Ask(300, 1, (Step("create", path),)) for path in PARENTS]
    multis, gap = 0.2 * draw.random.random(), draw.upto(15, 60)
    for at in range(400, length_ms, gap):
        client, share = draw.upto(1, CLIENTS_MAX), draw.random.random()
        if share < 0.04:
            ops.append(Connect(at, client, draw.server(), draw.among(SESSIONS_MS)))
        elif share < 0.045:
            ops.append(Vanish(at, draw.short(10, 3_000), client))
        elif share < 0.05:
            ops.append(Leave(at, client))
        elif share < 0.05 + multis:
            steps = tuple(draw.one_of(MULTI_STEPS) for _ in range(draw.upto(2, MULTI_MAX)))
            ops.append(Ask(at, client, steps))
        else:
            ops.append(Ask(at, client, (draw.one_of(STEPS),)))
    return ops


SET_APART: Final = (
    Profile(
        "mixed-ensemble",
        "some voters are servers of Apache ZooKeeper, in the world processes",
        any_fault,
        (300, 2_000),
        busy_clients,
        {"zookeeper_servers": Upto(1, 2)},
        {},
        machine="store",
        length_ms=LENGTH_MS,
    ),
)
