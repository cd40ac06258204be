"""Random histories of operations: legal ones from a sequential model, and corrupted ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import attrs

from harness.checkers.linear.history import UNKNOWN, History, Operation, Value
from harness.checkers.linear.models import CasRegisters, Counters, Model, Queues, Registers, State, Store

Draw = Callable[[Random, int], tuple[str, str, Value]]
"""A function from the number of an operation to its kind, key and value."""


def unique(chance: Random, number: int) -> tuple[str, str, Value]:
    key = chance.choice("ab")
    return ("write", key, number + 1) if chance.random() < 0.5 else ("read", key, None)


def repeated(chance: Random, number: int) -> tuple[str, str, Value]:
    return ("write", "a", chance.randrange(2)) if chance.random() < 0.5 else ("read", "a", None)


def compared(chance: Random, number: int) -> tuple[str, str, Value]:
    if chance.random() < 0.4:
        return "cas", "a", (chance.choice((None, 0, 1)), chance.randrange(3))
    return repeated(chance, number)


def stored(chance: Random, number: int) -> tuple[str, str, Value]:
    kind = chance.choice(("read", "write", "cas", "delete", "multi", "multi"))
    if kind == "multi":
        kinds = [chance.choice(("read", "write", "check", "cas", "delete")) for _ in range(chance.randint(1, 2))]
        return kind, "", tuple((part, chance.choice("ab"), _operand(part, chance)) for part in kinds)
    return kind, chance.choice("ab"), _operand(kind, chance)


def _operand(kind: str, chance: Random) -> Value:
    if kind == "cas":
        return chance.choice((None, 0)), chance.randrange(2)
    return chance.randrange(2) if kind in ("write", "check") else None


def counted(chance: Random, number: int) -> tuple[str, str, Value]:
    return ("add", "a", chance.randint(-1, 2)) if chance.random() < 0.6 else ("get", "a", None)


def queued(chance: Random, number: int) -> tuple[str, str, Value]:
    return ("put", "a", number % 3) if chance.random() < 0.5 else ("take", "a", None)


KINDS: dict[str, tuple[Model, Draw]] = {
    "unique": (Registers(), unique),
    "repeated": (Registers(), repeated),
    "compared": (CasRegisters(), compared),
    "stored": (Store(), stored),
    "counted": (Counters(), counted),
    "queued": (Queues(), queued),
}


def answer(model: Model, state: State, op: Operation, candidates: Sequence[Value]) -> tuple[Value, State]:
    """Return the only result among the candidates that the model accepts, and the next state."""
    for candidate in candidates:
        after = model.step(state, attrs.evolve(op, result=candidate, ret=op.call))
        if after:
            return candidate, after[0]
    raise AssertionError(op)


def _candidates(op: Operation, state: State) -> list[Value]:
    assert isinstance(state, tuple)
    held = [value for key, value in state if key == op.key]
    held += [value[0] for value in held if isinstance(value, tuple) and value]
    single: list[Value] = [None, *held, True, False, *range(-70, 130)]
    if op.kind != "multi":
        return single
    assert isinstance(op.value, tuple)
    answers: list[tuple[Value, ...]] = [()]
    for _ in op.value:
        answers = [(*before, one) for before in answers for one in (None, True, 0, 1)]
    return ["aborted", *answers]


def true_history(
    chance: Random, model: Model, draw: Draw, count: int, *, clients: int = 4, unknown: float = 0.1, tight: bool = False
) -> History:
    """Return a legal history: each operation takes effect at an instant between its call and its return."""
    free = {f"c{number}": 0 for number in range(clients)}
    state = model.initial()
    made: list[Operation] = []
    instant = 10
    for number in range(count):
        client = chance.choice(sorted(free))
        instant = max(instant + chance.randrange(1 if tight else 0, 3), free[client] + 1)
        call = chance.randint(max(free[client] + 1, instant - 6), instant)
        kind, key, value = draw(chance, number)
        op = Operation(number, client, kind, key, value, UNKNOWN, call, None, zxid=None)
        result, after = answer(model, state, op, _candidates(op, state))
        ret = instant + chance.randrange(7)
        if chance.random() < unknown:
            if chance.random() < 0.6:
                state = after
                op = attrs.evolve(op, zxid=2 * number + 2)
            del free[client]
            free[f"c{len(made)}+"] = call
        else:
            state = after
            op = attrs.evolve(op, result=result, ret=ret, zxid=2 * number + 2)
            free[client] = ret
        made.append(op)
    return History(tuple(made))


def corrupt(chance: Random, history: History) -> History:
    """Replace one result, or one interval."""
    known = [op for op in history.operations if op.known]
    if len(known) < 2:
        return history
    one, other = chance.sample(known, 2)
    changed = attrs.evolve(one, result=other.result)
    if chance.random() < 0.3:
        changed = attrs.evolve(
            one, call=(one.ret or 0) + 20, ret=(one.ret or 0) + 21, client=f"late{one.call}-{one.id}"
        )
    return History(tuple(changed if op is one else op for op in history.operations))


def without_zxids(history: History) -> History:
    return History(tuple(attrs.evolve(op, zxid=None) for op in history.operations))
