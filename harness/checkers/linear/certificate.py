"""The order that the store itself reports: if every reply has a zxid, check this order instead of searching for one.

One pass replays the order against the model and compares it with real time. If it fits, it proves the history legal. If
not, the reported order is wrong, which the verdict notes; another order may still fit, and the other methods decide
that.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from harness.checkers.linear.history import History, Operation
from harness.checkers.linear.models import Model, State
from harness.checkers.linear.verdict import Legal

STATES_MAX: Final = 1_000
"""The limit of states in a replay, for models with several next states. With more, the order is not certified."""


@frozen
class Refused:
    why: str
    operations: tuple[Operation, ...]
    steps: int


def certifiable(history: History) -> bool:
    return all(op.zxid is not None for op in history.operations if op.known)


def certify(history: History, model: Model) -> Legal | Refused:
    """Replay the operations in the order of their zxids.

    An operation without a reply takes part if its zxid is known from elsewhere; otherwise it had no effect.
    """
    rows: list[tuple[int, bool, int, int, Operation]] = []
    for op in history.operations:
        if op.zxid is None:
            if op.known:
                return Refused(f"#{op.id} has no zxid", (op,), 0)
        else:
            pure = model.pure(op)
            if op.known or not pure:
                # A read follows the write with the same zxid.
                rows.append((op.zxid, pure, op.call, op.id, op))
    rows.sort(key=lambda row: row[:4])
    return _replay([row[4] for row in rows], model)


def _replay(ordered: list[Operation], model: Model) -> Legal | Refused:
    states: tuple[State, ...] = (model.initial(),)
    latest: Operation | None = None
    writer: Operation | None = None
    for steps, op in enumerate(ordered, 1):
        if not model.pure(op):
            if writer is not None and writer.zxid == op.zxid:
                return Refused(f"the writes #{writer.id} and #{op.id} have the same zxid", (writer, op), steps)
            writer = op
        if latest is not None and op.before(latest):
            why = f"#{op.id} returned before #{latest.id} was called, but has the later zxid"
            return Refused(why, (op, latest), steps)
        if latest is None or op.call > latest.call:
            latest = op
        states = tuple(dict.fromkeys(after for state in states for after in model.step(state, op)))
        if not states or len(states) > STATES_MAX:
            behind = "at the beginning" if writer is None or writer is op else f"after the write #{writer.id}"
            return Refused(f"the result of #{op.id} is impossible {behind}", (op,), steps)
    return Legal(tuple(op.id for op in ordered), "certificate", len(ordered))
