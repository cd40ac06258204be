"""Registers in which every value is written once: decided by sorting, without a search.

A read identifies its write by the value. Each value defines a cluster, its write and its reads, and each cluster has a
zone between its first return and its last call. If the first return is earlier, the register must have the value
between the two: a forward zone. Otherwise the whole cluster fits into any one instant of the zone: a backward zone. The
history is legal exactly if no read returns before its write is called, no two forward zones overlap, and no backward
zone lies within a forward one (Gibbons and Korach, 1997).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from math import inf

from attrs import frozen

from harness.checkers.linear.history import UNKNOWN, Operation, Value
from harness.checkers.linear.verdict import Illegal, Legal


@frozen
class _Zone:
    value: Value
    operations: tuple[Operation, ...]
    """The write, except for the initial value, then the reads in the order of their calls."""
    first: Operation | None
    """The operation that returned first. None: the register has had the value from the beginning."""
    last: Operation
    first_return: float
    last_call: float

    @property
    def forward(self) -> bool:
        return self.first_return < self.last_call

    @property
    def evidence(self) -> tuple[Operation, ...]:
        """Return at most three operations that prove this zone."""
        write = [op for op in self.operations if op.kind == "write"]
        picked = {op.id: op for op in (*write, *([self.first] if self.first else []), self.last)}
        return tuple(picked.values())

    def __str__(self) -> str:
        if not self.forward:
            return f"{self.value!r} was written and replaced between {self.last_call:g} and {self.first_return:g}"
        since = "the beginning" if self.first is None else f"{self.first_return:g}"
        return f"the value was {self.value!r} from {since} to {self.last_call:g}"


def decide(operations: Iterable[Operation], unwritten: Value) -> Legal | Illegal | None:
    """Decide the reads and writes of one register. Return None if a value is written twice, or equals the initial
    one."""
    writes: dict[Value, Operation] = {}
    reads: dict[Value, list[Operation]] = {}
    steps = 0
    for op in sorted(operations, key=lambda op: (op.call, op.id)):
        steps += 1
        if op.kind == "write":
            if op.result not in (None, UNKNOWN):
                return _illegal((op,), f"a write cannot return {op.result!r}", steps)
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
                return _illegal((seen[0],), f"{value!r} was read, but never written", steps)
            continue
        early = next((read for read in seen if read.before(write)), None)
        if early is not None:
            return _illegal((early, write), f"{value!r} was read before it was written", steps)

    zones = []
    for value in {**writes, **reads}:
        if zone := _zone(value, writes.get(value), reads.get(value, [])):
            zones.append(zone)
            steps += 1
    return _arrange(zones, steps)


def _illegal(core: tuple[Operation, ...], why: str, steps: int) -> Illegal:
    return Illegal(core, why, "zones", steps, minimal=False)


def _zone(value: Value, write: Operation | None, reads: list[Operation]) -> _Zone | None:
    if write is not None and write.ret is None and not reads:
        return None  # a write without a return or a read may never have happened
    operations = (*([write] if write else []), *reads)
    last = max(operations, key=lambda op: op.call)
    if write is None:
        return _Zone(value, operations, None, last, -inf, last.call)
    first = min(operations, key=lambda op: inf if op.ret is None else op.ret)
    assert first.ret is not None
    return _Zone(value, operations, first, last, first.ret, last.call)


def _arrange(zones: list[_Zone], steps: int) -> Legal | Illegal:
    forward = sorted((zone for zone in zones if zone.forward), key=lambda zone: zone.first_return)
    for one, next_one in pairwise(forward):
        steps += 1
        # Two zones may meet in one instant: the value may change then.
        if next_one.first_return < one.last_call:
            return _illegal((*one.evidence, *next_one.evidence), f"{one}, and {next_one}", steps)
    starts = [zone.first_return for zone in forward]
    placed = [(zone.first_return, True, zone) for zone in forward]
    for zone in zones:
        if zone.forward:
            continue
        steps += 1
        around = bisect_left(starts, zone.last_call) - 1  # the last forward zone that starts strictly before
        # A backward zone that ends after the forward zone fits behind it, and is sorted so by its last call.
        if around >= 0 and zone.first_return < forward[around].last_call:
            return _illegal((*forward[around].evidence, *zone.evidence), f"{forward[around]}, but {zone}", steps)
        placed.append((zone.last_call, False, zone))
    placed.sort(key=lambda item: item[:2])
    return Legal(tuple(op.id for _, _, zone in placed for op in zone.operations), "zones", steps)
