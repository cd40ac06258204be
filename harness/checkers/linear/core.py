"""Reduce an illegal history to a core: a few operations that prove it illegal.

There are three reductions. Each keeps a legal history legal, so an illegal rest proves the whole history illegal. The
first cuts the history at an instant; later replies become unknown. The second drops operations that the model calls
removable. The third drops independent objects, which the caller has done already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from harness.checkers.linear.history import UNKNOWN, Operation
from harness.checkers.linear.models import Model

Illegal = Callable[[Sequence[Operation]], bool]
"""A test that returns True if these operations are proved to have no legal order, and False if that is unknown."""


def until(operations: Sequence[Operation], instant: int) -> list[Operation]:
    """Return the history right after that instant."""
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
    """Find the shortest illegal prefix by bisection: all longer prefixes are illegal, too."""
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
    """Group each write with its reads. The reads come first, because the write is removable only without them."""
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
    """Drop the removable operations of each share if the rest stays illegal."""
    for share in shares:
        fewer = sorted(without_removable(kept, share, model), key=lambda op: (op.call, op.id))
        if len(fewer) < len(kept) and illegal(fewer):
            kept = fewer
    return kept


def without_removable(kept: Iterable[Operation], share: Iterable[Operation], model: Model) -> list[Operation]:
    """Return the operations without those of the share that can be removed one after the other."""
    rest = {op.id: op for op in kept}
    for op in share:
        del rest[op.id]
        if not model.removable(op, rest.values()):
            rest[op.id] = op
    return list(rest.values())
