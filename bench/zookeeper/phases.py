"""The measurements of the store beside its peers, their order, and the compared figures."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from attrs import field, frozen

CONNECTIONS: Final = 6
OUTSTANDING: Final = 64
SMALL: Final = 128
LARGE: Final = 1024
NODE_DATA: Final = 100
IDLE_SESSIONS: Final = 1_000
ACTIVE_SESSIONS: Final = 200
WATCHERS: Final = 1_000
CHILDREN: Final = 10_000


class Kind(Enum):
    """The part of a comparison that runs a phase."""

    ROUNDS = "the rounds, in which both sides take turns, warm"
    FAULT = "after them, at the same servers: some are killed"
    MEMORY = "servers of its own, with nothing else in them"
    PEER = "another peer, spoken to in another way"


@frozen
class Measure:
    """A number of each side; the ratio is ours to theirs."""

    key: str
    of: str
    unit: str
    less_is_better: bool = True


SPEED: Final = Measure("per_s", "speed", "/s", less_is_better=False)
P50: Final = Measure("p50_ms", "p50", "ms")
GAP: Final = Measure("gap_ms", "longest gap", "ms")
SECONDS: Final = Measure("seconds", "time", "s")
MEMORY: Final = Measure("server_mib", "memory of a server", "MiB")


@frozen
class Phase:
    """
    share   of the operations of a run that are run: those that take longer each are fewer
    goal    for the ratio: at least, or at most where less is better
    more    what else the load generator is told
    asked   only by name: takes too long for a run of everything
    """

    name: str
    title: str
    do: str
    kind: Kind = Kind.ROUNDS
    size: int = SMALL
    outstanding: int = OUTSTANDING
    share: float = 1.0
    measure: Measure = SPEED
    goal: float | None = None
    more: dict[str, int] = field(factory=dict)
    asked: bool = False

    def operations(self, operations: int) -> int:
        return max(CONNECTIONS * 10, int(operations * self.share))


_CROWD: Final = {"idle": IDLE_SESSIONS, "active": ACTIVE_SESSIONS}
_ALL: Final = (
    Phase("connect", "sessions opened", "connect", share=0.02),
    Phase("set", "set, 128 bytes", "set", goal=2.0),
    Phase("create", "create", "create", goal=2.0),
    Phase("delete", "delete", "delete", goal=2.0),
    Phase("get", "get", "get", share=2.0, goal=2.5),
    Phase("exists", "exists", "exists", share=2.0),
    Phase("mixed", "90 % get, 10 % set", "mixed", share=2.0, goal=2.5),
    Phase("set-1k", "set, 1 KiB", "set", size=LARGE),
    Phase("create-1k", "create, 1 KiB", "create", size=LARGE),
    Phase("delete-1k", "delete, 1 KiB", "delete", size=LARGE),
    Phase("get-1k", "get, 1 KiB", "get", size=LARGE, share=2.0),
    Phase("multi", "multi of 10 sets", "multi", share=0.1),
    Phase("one-set", "one set at a time", "set", outstanding=1, share=0.1, measure=P50, goal=1.0),
    Phase("one-get", "one get at a time", "get", outstanding=1, measure=P50, goal=1.0),
    Phase("ephemerals", "ephemeral made and deleted", "ephemerals", share=0.5),
    Phase("churn", "session, 10 ephemerals, gone", "churn", share=0.2),
    Phase("children", "list of 10,000 children", "children", outstanding=4, share=0.01, more={"children": CHILDREN}),
    Phase("sessions", "1,000 idle sessions, 200 at work", "sessions", outstanding=2, more=_CROWD),
    Phase("fan-out", "1,000 watchers, the last hears", "fan-out", measure=P50, more={"watchers": WATCHERS}),
    Phase("catch-up", "back, 100,000 behind", "catch-up", Kind.FAULT, share=5 / 3, measure=SECONDS),
    Phase("leader-killed", "leader killed: others' writers", "leader", Kind.FAULT, measure=GAP, goal=0.5),
    Phase("follower-killed", "follower killed: others' writers", "follower", Kind.FAULT, measure=GAP),
    Phase(
        "memory", "a server with 100,000 nodes", "memory", Kind.MEMORY, NODE_DATA, share=5 / 3, measure=MEMORY, goal=1.0
    ),
    Phase(
        "memory-million", "a server with 1,000,000 nodes", "memory", Kind.MEMORY, NODE_DATA, share=50 / 3,
        measure=MEMORY, asked=True,
    ),
    Phase("etcd", "etcd, in phases of its own", "etcd", Kind.PEER, share=0.5),
    Phase("pysyncobj", "PySyncObj, in phases of its own", "pysyncobj", Kind.PEER),
    Phase("kazoo", "kazoo, in phases of its own", "kazoo", Kind.PEER, share=1 / 3),
)  # fmt: skip
_OF_PEERS: Final = (
    Phase("etcd-set", "put, as set", "set", Kind.PEER, share=0.5),
    Phase("etcd-create", "put of a new key, as create", "create", Kind.PEER, share=0.5),
    Phase("etcd-delete", "delete", "delete", Kind.PEER, share=0.5),
    Phase("etcd-get", "range, serializable, as get", "get", Kind.PEER),
    Phase("etcd-mixed", "90 % of these, 10 % put", "mixed", Kind.PEER),
    Phase("etcd-one-set", "one put at a time", "set", Kind.PEER, outstanding=1, share=0.05, measure=P50),
    Phase("etcd-one-get", "one range at a time", "get", Kind.PEER, outstanding=1, share=0.2, measure=P50),
    Phase("pysyncobj-384", "writes, 384 outstanding", "write", Kind.PEER, goal=10.0),
    Phase("pysyncobj-6144", "writes, 6,144 outstanding", "write", Kind.PEER),
    Phase("kazoo-get", "get, 64 outstanding", "get", Kind.PEER),
    Phase("kazoo-set", "set, 64 outstanding", "set", Kind.PEER),
    Phase("kazoo-one-get", "one get at a time", "get", Kind.PEER),
)
PHASES: Final = {phase.name: phase for phase in _ALL}
"""In this order. What `create` made, `delete` takes away; so `get` finds data of the size that `set` left."""

ROWS: Final = {phase.name: phase for phase in (*_ALL, *_OF_PEERS)}
"""All that can be a row of the report: a peer's phases are chosen by its name, and told one by one."""

_PAIRS: Final = {"create": "delete", "create-1k": "delete-1k"}


def planned(names: Sequence[str] | None) -> list[Phase]:
    """With its other half where a phase cannot be run without it, and data of the right size to read."""
    wanted = set(names or (name for name, phase in PHASES.items() if not phase.asked))
    for create, delete in _PAIRS.items():
        if wanted & {create, delete}:
            wanted |= {create, delete}
    if "get-1k" in wanted:
        wanted.add("set-1k")
    return [phase for name, phase in PHASES.items() if name in wanted]


def of_kind(phases: Sequence[Phase], kind: Kind) -> list[Phase]:
    return [phase for phase in phases if phase.kind is kind]
