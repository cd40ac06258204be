"""A small and slow verification of verdicts, which shares no code with the methods that found them.

It shares only the classes of histories and models with them, because these define the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.linear.history import UNKNOWN, History, Operation
from harness.checkers.linear.models import Model, State

BRUTE_OPERATIONS_MAX: Final = 7
"""The limit of operations for trying all orders."""


def wrong_with_order(history: History, model: Model, order: Sequence[int]) -> str | None:
    """Return the mistake in the claim that the operations took effect in this order, or None if the order is legal."""
    by_id = {op.id: op for op in history.operations}
    if len(set(order)) != len(order):
        return "an operation is in the order twice"
    for name in order:
        if name not in by_id:
            return f"#{name} is in the order, but not in the history"
    for name in sorted({op.id for op in history.operations if op.ret is not None} - set(order)):
        return f"#{name} has returned, but is not in the order"
    begun: Operation | None = None
    for op in (by_id[name] for name in order):
        if begun is not None and op.ret is not None and op.ret < begun.call:
            return f"#{op.id} returned before #{begun.id} was called, but is after it in the order"
        if begun is None or op.call > begun.call:
            begun = op
    states: set[State] = {model.initial()}
    for name in order:
        states = {after for state in states for after in model.step(state, by_id[name])}
        if not states:
            return f"the result of #{name} is impossible in this order"
    return None


def wrong_with_core(history: History, model: Model, core: Sequence[Operation]) -> str | None:
    """Return the mistake in the claim that these operations have no legal order, or None if the claim is true.

    The conclusion that the whole history has none depends on the model's `removable`, which the tests compare with all
    orders of small histories.
    """
    by_id = {op.id: op for op in history.operations}
    for op in core:
        whole = by_id.get(op.id)
        if whole is None or not _same_or_cut(op, whole):
            return f"#{op.id} of the core differs from the history"
    return "the core has a legal order" if brute(core, model) else None


def _same_or_cut(op: Operation, whole: Operation) -> bool:
    """Return whether the operation is the whole one, or the whole one without its result: a core may end before it."""
    fields = (op.client, op.kind, op.key, op.value, op.call)
    if fields != (whole.client, whole.kind, whole.key, whole.value, whole.call):
        return False
    return (op.result, op.ret) == (whole.result, whole.ret) or (op.result is UNKNOWN and op.ret is None)


def brute(operations: Sequence[Operation], model: Model) -> bool:
    """Return whether the operations have a legal order, by trying all orders."""
    if len(operations) > BRUTE_OPERATIONS_MAX:
        raise ValueError(
            f"{len(operations)} operations are too many for trying all orders; {BRUTE_OPERATIONS_MAX} at most"
        )
    return _brute(model.initial(), list(operations), model)


def _brute(state: State, left: list[Operation], model: Model) -> bool:
    if all(op.ret is None for op in left):
        return True
    for op in left:
        others = [other for other in left if other is not op]
        if any(other.ret is not None and other.ret < op.call for other in others):
            continue  # another operation returned before this call, so it must come first
        if any(_brute(after, others, model) for after in model.step(state, op)):
            return True
    return False
