"""Registers in which every value is written once: decided by sorting, without a search.

Who reads a value names the write it saw. So each value stands for a *cluster*, its write and its reads, and each
cluster has a *zone* between its first return and its last call. Is the first return the earlier one, the value must
have been there from the one to the other: a *forward* zone. Otherwise the whole cluster fits into any one instant
of the zone: a *backward* one. The history is legal exactly if no read returns before its write is called, no two
forward zones overlap, and no backward zone lies within a forward one (Gibbons and Korach, 1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from math import inf

from attrs import frozen

from harness.checkers.linear.history import UNKNOWN, Operation, Value


@frozen
class Ordered:
    order: tuple[Operation, ...]
    steps: int


@frozen
class Conflict:
    """These operations alone admit no order."""

    core: tuple[Operation, ...]
    why: str
    steps: int


@frozen
class _Zone:
    value: Value
    operations: tuple[Operation, ...]
    """The write, which the unwritten value has not, then the reads by their calls."""
    first: Operation | None
    """Returned first. None: the value was there before everything."""
    last: Operation
    first_return: float
    last_call: float

    @property
    def forward(self) -> bool:
        return self.first_return < self.last_call

    @property
    def evidence(self) -> tuple[Operation, ...]:
        """Return at most three operations that already make this zone."""
        write = [op for op in self.operations if op.kind == "write"]
        picked = {op.id: op for op in (*write, *([self.first] if self.first else []), self.last)}
        return tuple(picked.values())

    def __str__(self) -> str:
        if not self.forward:
            return f"{self.value!r} came and went between {self.last_call:g} and {self.first_return:g}"
        since = "the beginning" if self.first is None else f"{self.first_return:g}"
        return f"{self.value!r} was there from {since} to {self.last_call:g}"


def decide(operations: Iterable[Operation], unwritten: Value) -> Ordered | Conflict | None:
    """Reads and writes of one register. None: a value was written twice, or was there before it was written."""
    writes: dict[Value, Operation] = {}
    reads: dict[Value, list[Operation]] = {}
    steps = 0
    for op in sorted(operations, key=lambda op: (op.call, op.id)):
        steps += 1
        if op.kind == "write":
            if op.result not in (None, UNKNOWN):
                return Conflict((op,), f"no write answers {op.result!r}", steps)
            if op.value in writes or op.value == unwritten:
                return None
            writes[op.value] = op
        elif op.kind != "read":
            return None
        elif op.result is not UNKNOWN:
            reads.setdefault(op.result, []).append(op)

    for value, seen in reads.items():
        write = writes.get(value)
        if write is None:
            if value != unwritten:
                return Conflict((seen[0],), f"{value!r} was read and never written", steps)
            continue
        early = next((read for read in seen if read.before(write)), None)
        if early is not None:
            return Conflict((early, write), f"{value!r} was read before it was written", steps)

    zones = []
    for value in {**writes, **reads}:
        if zone := _zone(value, writes.get(value), reads.get(value, [])):
            zones.append(zone)
            steps += 1
    return _arrange(zones, steps)


def _zone(value: Value, write: Operation | None, reads: list[Operation]) -> _Zone | None:
    if write is not None and write.ret is None and not reads:
        return None  # for all that anybody saw, it never happened
    operations = (*([write] if write else []), *reads)
    last = max(operations, key=lambda op: op.call)
    if write is None:
        return _Zone(value, operations, None, last, -inf, last.call)
    first = min(operations, key=lambda op: inf if op.ret is None else op.ret)
    assert first.ret is not None
    return _Zone(value, operations, first, last, first.ret, last.call)


def _arrange(zones: list[_Zone], steps: int) -> Ordered | Conflict:
    forward = sorted((zone for zone in zones if zone.forward), key=lambda zone: zone.first_return)
    for one, next_one in pairwise(forward):
        steps += 1
        # Touching is not overlapping: in one instant, the one can go and the other come.
        if next_one.first_return < one.last_call:
            return Conflict((*one.evidence, *next_one.evidence), f"{one}, and {next_one}", steps)
    starts = [zone.first_return for zone in forward]
    placed = [(zone.first_return, True, zone) for zone in forward]
    for zone in zones:
        if zone.forward:
            continue
        steps += 1
        around = bisect_left(starts, zone.last_call) - 1  # the last that starts strictly before
        # One that outlasts the forward zone comes behind it, where its last call puts it anyway.
        if around >= 0 and zone.first_return < forward[around].last_call:
            return Conflict((*forward[around].evidence, *zone.evidence), f"{forward[around]}, yet {zone}", steps)
        placed.append((zone.last_call, False, zone))
    placed.sort(key=lambda item: item[:2])
    return Ordered(tuple(op for _, _, zone in placed for op in zone.operations), steps)
