"""A profile generates scripts that lead repeatedly to one situation, which usual scripts seldom reach.

A profile takes a usual script and replaces its faults and, if the situation needs it, operations, timing and knobs. All
other parts of the script stay, so that no two scripts of a profile are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from harness.draw import script_from_seed
from harness.faults import Fault, Op, Script
from harness.script.values import Draw, Upto, Value

Faults: TypeAlias = Callable[[Draw, int, int], Sequence[Fault]]
"""Generate the faults from one time on. The next call follows after the gap. Both are in milliseconds."""
Ops: TypeAlias = Callable[[Draw, int], Sequence[Op]]
"""Generate all operations of a script of this length."""
Ranges: TypeAlias = Mapping[str, Value]


def exactly(value: int) -> Upto:
    return Upto(value, value)


TICK: Final[Ranges] = {"tick_ms": exactly(50)}
QUICK: Final[Ranges] = {name: exactly(0) for name in ("turn_us_max", "loss_percent", "spike_percent")}


_STREAMS: Final[Mapping[str, str]] = {
    "deposed-leader-serves": "deposed", "stale-leader-messages": "two reigns", "power-loss-in-sync": "behind",
    "crash-then-power-loss": "power after", "torn-writes": "torn writes", "power-loss-after-truncation": "cut back",
    "snapshot-interrupted": "snapshots broken off", "log-rolls-in-snapshot": "crowded disk",
    "slow-leader-disk": "leader's disk lags", "leader-removed": "leaders leave",
    "reconfig-in-snapshot": "unseen change", "reconfig-truncated": "change cut off",
    "reconfig-replaced-by-snapshot": "change replaced", "rejoin-in-reconfig": "healed in a change",
    "link-replaced": "links replaced", "hierarchical-quorums": "groups", "clients-of-lagging-server": "cut off",
    "leader-crash-under-writes": "leaders go", "link-replaced-under-writes": "full desk",
    "syncs-across-election": "syncs in doubt", "ephemerals-at-close": "owners leave", "acls": "not for all",
    "containers-and-ttl": "passing", "quotas": "within limits", "sessions-of-deposed-leader": "leader for a while",
    "half-open-connections": "half open", "controller-crash-in-reassignment": "moves",
    "topic-grows-in-reassignment": "grown meanwhile", "replica-leaves-in-reassignment": "gone on arrival",
    "stale-controller-commands": "unheard", "broker-restart-in-session": "bounced", "controller-cut-off": "contested",
    "election-reply-lost": "in doubt", "controller-crash-in-deletion": "half deleted",
    "partition-leader-changes": "leaders in turn", "returning-replica": "counted too early",
    "diverging-leader-epochs": "epochs apart", "durable-truncation": "cut and kept",
    "truncation-within-epoch": "cut within an epoch", "retention-by-size": "too long", "retention-by-age": "too old",
    "offset-commits": "positions", "broker-power-loss": "power fails", "isolated-partition-leader": "left alone",
    "coordinator-crashes": "coordinators go", "leader-command-missed": "led before",
    "leads-again-before-timeout": "led again", "reassignment-cancelled": "moves taken back",
    "isr-request-unanswered": "asked in vain", "late-offset-commits": "late commits",
    "static-member-restart": "names outlive ids", "rebalance-before-assignment": "shares on the way",
    "isr-request-delayed": "let in too late",
}  # fmt: skip
"""The labels of random streams. A label never changes, because recorded seeds would generate other scripts. The label of
a profile that is not listed is its name."""


def no_faults(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    return ()


@frozen
class Profile:
    name: str
    what: str
    """The situation to which the scripts lead."""
    faults: Faults = no_faults
    every_ms: tuple[int, int] = (3_000, 3_000)
    """The time between two calls of `faults`."""
    ops: Ops | None = None
    """Generates the operations; None keeps those of the usual script."""
    knobs: Ranges = TICK
    timing: Ranges = QUICK
    machine: str = "list"
    """The machine in which the situation occurs."""
    brokers: int = 0
    """The number of brokers; 0 keeps that of the usual script."""
    observers: int = 0
    """The least number of observers."""
    length_ms: int = 3_000
    quorums: Callable[[Draw], Mapping[str, Any]] | None = None
    """Generates groups and weights; None: a majority is a quorum."""

    def script(self, seed: int, *, voters: int, machine: str = "") -> Script:
        usual = script_from_seed(seed, voters=voters, machine=machine or self.machine, length_ms=self.length_ms)
        usual = evolve(usual, observers=max(usual.observers, self.observers), brokers=self.brokers or usual.brokers)
        draw = Draw(Random(f"profile/{_STREAMS.get(self.name, self.name)}/{seed}/{voters}"), voters, usual.observers)
        faults: list[Fault] = []
        at = draw.upto(300, 600)
        while at < usual.length_ms - 300:
            gap = draw.upto(*self.every_ms)
            faults += self.faults(draw, at, gap)
            at += gap
        if self.quorums is not None:
            usual = evolve(usual, **self.quorums(draw))
        return evolve(
            usual,
            knobs=evolve(usual.knobs, **draw.fields(self.knobs)),
            timing=evolve(usual.timing, **draw.fields(self.timing)),
            ops=usual.ops if self.ops is None else tuple(sorted(self.ops(draw, usual.length_ms), key=_at)),
            faults=tuple(sorted((each for each in faults if each.at < usual.length_ms), key=_at)),
        )


def _at(item: Fault | Op) -> int:
    return item.at
