"""The store says in which order it did things: every answer bears a zxid. Believe it, and check it.

The order need not be searched then. It is replayed against the model and held against real time in one pass. If it
fits, it proves the history legal, whatever the store meant by it. If it does not, the claim is wrong, which is a
finding; whether another order would fit is for the other checkers to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from harness.checkers.linear.history import History, Operation
from harness.checkers.linear.models import Model, State

STATES_MAX: Final = 1_000
"""Of a model that leaves a choice. With more, the claim is not worth its check."""


@frozen
class Certified:
    order: tuple[int, ...]
    steps: int


@frozen
class Refused:
    why: str
    operations: tuple[Operation, ...]
    steps: int


def certifiable(history: History) -> bool:
    return all(op.zxid is not None for op in history.operations if op.known)


def certify(history: History, model: Model) -> Certified | Refused:
    """An operation without an answer takes part if its zxid became known otherwise, and did nothing if it did not."""
    rows: list[tuple[int, bool, int, int, Operation]] = []
    for op in history.operations:
        if op.zxid is None:
            if op.known:
                return Refused(f"#{op.id} bears no zxid", (op,), 0)
        else:
            pure = model.pure(op)
            if op.known or not pure:
                # A state is read after it is made: reads stand behind the write of their zxid.
                rows.append((op.zxid, pure, op.call, op.id, op))
    rows.sort(key=lambda row: row[:4])
    return _replay([row[4] for row in rows], model)


def _replay(ordered: list[Operation], model: Model) -> Certified | Refused:
    states: tuple[State, ...] = (model.initial(),)
    latest: Operation | None = None
    writer: Operation | None = None
    for steps, op in enumerate(ordered, 1):
        if not model.pure(op):
            if writer is not None and writer.zxid == op.zxid:
                return Refused(f"#{writer.id} and #{op.id} wrote under one zxid", (writer, op), steps)
            writer = op
        if latest is not None and op.before(latest):
            why = f"#{op.id} returned before #{latest.id} was called, and bears the later zxid"
            return Refused(why, (op, latest), steps)
        if latest is None or op.call > latest.call:
            latest = op
        states = _distinct(after for state in states for after in model.step(state, op))
        if not states or len(states) > STATES_MAX:
            behind = "at the beginning" if writer is None or writer is op else f"behind the write #{writer.id}"
            return Refused(f"#{op.id} cannot have answered so {behind}", (op,), steps)
    return Certified(tuple(op.id for op in ordered), len(ordered))


def _distinct(states: Iterable[State]) -> tuple[State, ...]:
    return tuple(dict.fromkeys(states))
