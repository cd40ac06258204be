"""Find a few operations that show that a history is illegal.

Three ways to leave something out, and each can only make a history more legal, so that what stays illegal proves
the whole illegal: everything after some instant (an answer that came later is then not known); whatever the model
calls removable; and objects that have nothing to do with it, which the caller has left out already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from harness.checkers.linear.history import UNKNOWN, Operation
from harness.checkers.linear.models import Model

Illegal = Callable[[Sequence[Operation]], bool]
"""Whether these are known to admit no order. False when that could not be found out."""


def until(operations: Sequence[Operation], instant: int) -> list[Operation]:
    """The history as it stood right behind that instant."""
    return [
        op if op.ret is not None and op.ret <= instant else attrs.evolve(op, ret=None, result=UNKNOWN)
        for op in operations
        if op.call <= instant
    ]


def minimize(operations: Sequence[Operation], model: Model, illegal: Illegal) -> tuple[Operation, ...]:
    kept = _shortest_prefix(operations, illegal)
    while True:
        before = len(kept)
        share = (before + 1) // 2
        while share > 1:
            kept = _without(kept, _shares(kept, model, share), model, illegal)
            share //= 2
        kept = _without(kept, _clusters(kept, model), model, illegal)
        kept = _without(kept, [[op] for op in kept], model, illegal)
        if len(kept) == before:
            return tuple(kept)


def _shortest_prefix(operations: Sequence[Operation], illegal: Illegal) -> list[Operation]:
    """Longer prefixes of an illegal one are illegal, so the first illegal one is found by halving."""
    returns = sorted({op.ret for op in operations if op.ret is not None})
    low, high = 0, len(returns) - 1
    found = list(operations)
    while low <= high:
        middle = (low + high) // 2
        shorter = until(operations, returns[middle])
        if illegal(shorter):
            found, high = shorter, middle - 1
        else:
            low = middle + 1
    return found


def _clusters(kept: Sequence[Operation], model: Model) -> list[list[Operation]]:
    """A write and its reads, the reads first: the write can be left out only behind them."""
    said: dict[str, list[Operation]] = {}
    for op in sorted(kept, key=lambda op: (not model.pure(op), op.call, op.id)):
        value = op.result if model.pure(op) else op.value
        said.setdefault(repr((op.key, value)), []).append(op)
    return list(said.values())


def _shares(kept: Sequence[Operation], model: Model, share: int) -> list[list[Operation]]:
    ordered = [op for cluster in _clusters(kept, model) for op in cluster]
    return [ordered[at : at + share] for at in range(0, len(ordered), share)]


def _without(
    kept: list[Operation], shares: Sequence[Sequence[Operation]], model: Model, illegal: Illegal
) -> list[Operation]:
    """Remove from each share, one operation after the other, all that the illegality does not depend on."""
    for share in shares:
        rest = {op.id: op for op in kept}
        for op in share:
            del rest[op.id]
            if not model.removable(op, rest.values()):
                rest[op.id] = op
        fewer = sorted(rest.values(), key=lambda op: (op.call, op.id))
        if len(fewer) < len(kept) and illegal(fewer):
            kept = fewer
    return kept
