"""The checkers are checked: small, slow, and nothing in common with the searches whose word it takes apart.

It shares with them what a history is and what the model does, for these are the question and not the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.linear.history import UNKNOWN, History, Operation
from harness.checkers.linear.models import Model, State

BRUTE_OPERATIONS_MAX: Final = 7
"""With more, all orders are too many."""


def wrong_with_order(history: History, model: Model, order: Sequence[int]) -> str | None:
    """Return the mistake in the claim that operations took effect in this order; None if it proves the history."""
    by_id = {op.id: op for op in history.operations}
    if len(set(order)) != len(order):
        return "an operation stands in the order twice"
    for name in order:
        if name not in by_id:
            return f"#{name} stands in the order, but not in the history"
    for name in sorted({op.id for op in history.operations if op.ret is not None} - set(order)):
        return f"#{name} was answered, but does not stand in the order"
    begun: Operation | None = None
    for op in (by_id[name] for name in order):
        if begun is not None and op.ret is not None and op.ret < begun.call:
            return f"#{op.id} was over before #{begun.id} began, but stands behind it"
        if begun is None or op.call > begun.call:
            begun = op
    states: set[State] = {model.initial()}
    for name in order:
        states = {after for state in states for after in model.step(state, by_id[name])}
        if not states:
            return f"#{name} cannot have answered so in this order"
    return None


def wrong_with_core(history: History, model: Model, core: Sequence[Operation]) -> str | None:
    """Return the mistake in the claim that these operations admit no order; None if they admit none.

    That the whole history then admits none either rests on the model's rule of what may be left out (`removable`),
    which the tests hold against all orders of small histories.
    """
    by_id = {op.id: op for op in history.operations}
    for op in core:
        whole = by_id.get(op.id)
        if whole is None or not _same_or_cut(op, whole):
            return f"#{op.id} of the core is not what the history says"
    return "there is an order" if brute(core, model) else None


def _same_or_cut(op: Operation, whole: Operation) -> bool:
    """The core may end before an answer came, so that it does not have it."""
    said = (op.client, op.kind, op.key, op.value, op.call)
    if said != (whole.client, whole.kind, whole.key, whole.value, whole.call):
        return False
    return (op.result, op.ret) == (whole.result, whole.ret) or (op.result is UNKNOWN and op.ret is None)


def not_minimal(model: Model, core: Sequence[Operation]) -> Operation | None:
    """One that could soundly be left out of the core, and leave it illegal."""
    for op in core:
        rest = [other for other in core if other is not op]
        if model.removable(op, rest) and not brute(rest, model):
            return op
    return None


def brute(operations: Sequence[Operation], model: Model) -> bool:
    """Is there an order? Tries all of them."""
    if len(operations) > BRUTE_OPERATIONS_MAX:
        raise ValueError(f"{len(operations)} operations have too many orders: at most {BRUTE_OPERATIONS_MAX}")
    return _brute(model.initial(), list(operations), model)


def _brute(state: State, left: list[Operation], model: Model) -> bool:
    if all(op.ret is None for op in left):
        return True
    for op in left:
        others = [other for other in left if other is not op]
        if any(other.ret is not None and other.ret < op.call for other in others):
            continue  # that one was over before this one began, so it comes first
        if any(_brute(after, others, model) for after in model.step(state, op)):
            return True
    return False
