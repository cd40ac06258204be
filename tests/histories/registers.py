"""Handwritten histories of one register for corner cases; wrong proofs, and nondeterministic models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final

from attrs import frozen

from harness.checkers import linear
from harness.checkers.linear import (
    UNKNOWN,
    History,
    Operation,
    certificate,
    core,
    decide,
    verify,
    zones,
)
from harness.checkers.linear.history import Value
from harness.checkers.linear.models import Keyed, Registers, State
from tests.histories.algebra import Action, Modelled, always, decided, not_minimal
from tests.histories.operations import without_zxids


def _by_hand(*rows: tuple[str, Value, int, int | None, int | None]) -> History:
    """Return a history of one register from rows of (kind, value, call, return, zxid), each of another client."""
    made = []
    for number, (kind, value, call, ret, zxid) in enumerate(rows):
        wrote, read = (value, None) if kind == "write" else (None, value)
        result = UNKNOWN if ret is None else read
        made.append(Operation(number, f"c{number}", kind, "x", wrote, result, call, ret, zxid))
    return History(tuple(made))


BY_HAND: Final[dict[str, History]] = {
    "nothing": History(()),
    "at one instant": _by_hand(("write", 1, 0, 5, 4), ("write", 2, 5, 6, 2), ("read", 1, 10, 11, 4)),
    "one value replaces another": _by_hand(
        ("write", 1, 0, 5, 2), ("read", 1, 10, 12, 2), ("write", 2, 8, 10, 4), ("read", 2, 20, 21, 4)
    ),
    "one value is replaced too late": _by_hand(
        ("write", 1, 0, 5, 2), ("read", 1, 11, 12, 2), ("write", 2, 8, 10, 4), ("read", 2, 20, 21, 4)
    ),
    "backward zone at the start of a forward one": _by_hand(
        ("write", 1, 0, 10, 4), ("read", 1, 20, 21, 4), ("write", 2, 10, 30, 2)
    ),
    "read before the write returns": _by_hand(
        ("write", 1, 0, 90, 2),
        ("read", 1, 2, 4, 2),
        ("read", 1, 40, 50, 2),
        ("write", 2, 10, 12, 4),
        ("read", 2, 14, 16, 4),
    ),
    "the initial value is written": _by_hand(("write", None, 0, 2, 2), ("read", None, 4, 6, 2)),
    "the initial value is read": _by_hand(("read", None, 0, 2, 0), ("write", 1, 1, 5, 2), ("read", None, 4, 6, 0)),
    "negative times": _by_hand(("write", 1, -90, -80, 2), ("read", 1, -70, -60, 2), ("write", 2, -50, None, None)),
    "two called at once": _by_hand(("write", 1, 10, 20, 4), ("write", 2, 10, 20, 6), ("write", 3, 0, 5, 8)),
    "one unknown zxid": _by_hand(("write", 1, 0, 5, None), ("read", 1, 6, 8, 2)),
    "a write without a reply": _by_hand(("write", 1, 0, None, 2), ("read", 1, 6, 8, 2), ("read", None, 10, 12, 2)),
}


def all_orders(history: History, modelled: Modelled) -> object:
    """Return the verification of every order, and whether a legal one exists."""
    model, ops = modelled(history.operations), history.operations
    orders = list(permutations([op.id for op in ops]))
    wrong = [verify.wrong_with_order(history, model, order) for order in orders]
    return wrong, verify.brute(ops, model), not_minimal(model, ops)


def zoned(history: History) -> Action:
    """Return the verdict of zones, also with an operation that is neither a read nor a write."""
    swap = Operation(99, "swap", "cas", "x", (1, 2), True, 3, 4)
    return lambda: [zones.decide(ops, None) for ops in (history.operations, (*history.operations, swap))]


def wrong_proofs() -> object:
    """Return the errors for wrong proofs, and for too many operations."""
    seven = _by_hand(*(("write", number, 10 * number, 10 * number + 5, None) for number in range(7)))
    eight = _by_hand(*(("write", number, 10 * number, 10 * number + 5, None) for number in range(8)))
    results = []
    for history in (seven, eight):
        ops = history.operations
        for verdict in (
            linear.Legal((), "guess", 1),
            linear.Illegal(ops, "guess", "guess", 1, True),
            linear.Unknown(1, ()),
        ):
            results.append(_or_wrong(lambda: decide.proved(verdict, history, Registers())))  # noqa: B023 - called at once
        results.append(_or_wrong(lambda: verify.brute(ops, Registers())))  # noqa: B023
    results.append(_or_wrong(lambda: Keyed().apply(None, "read", None)))
    return results


def _or_wrong(action: Action) -> object:
    try:
        return action()
    except (AssertionError, ValueError, NotImplementedError) as error:
        return repr(error)


def minimal_core() -> object:
    """Return the core if no part is proved illegal: the whole history."""
    return core.minimize(BY_HAND["one value is replaced too late"].operations, Registers(), lambda operations: False)


@frozen
class Dice:
    """A nondeterministic register: a write of n stores a number below n, and reads return it."""

    def initial(self) -> State:
        return 0

    def step(self, state: State, op: Operation) -> Sequence[State]:
        if op.kind == "write":
            assert isinstance(op.value, int)
            return range(1, op.value + 1)
        return (state,) if op.result in (state, UNKNOWN) else ()

    def pure(self, op: Operation) -> bool:
        return op.kind == "read"

    def touches(self, op: Operation) -> Sequence[str]:
        return (op.key,)

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        return self.pure(op)


def dice() -> object:
    """Dice with 6, 1,000 and too many sides; the reads require the third throw."""
    results: list[object] = []
    for sides in (1_000, 1_001):
        results.append(certificate.certify(_by_hand(("write", sides, 0, 5, 2)), Dice()))
    for sides in (1, 3, 6):
        for seen in (1, 3, 6):
            history = _by_hand(("write", sides, 0, 5, 2), ("write", sides, 6, 9, 4), ("read", seen, 10, 12, 4))
            results += [decided(history, always(Dice())), decided(without_zxids(history), always(Dice()))]
            results.append([decide.by_zones(history.operations, Dice()), certificate.certify(history, Dice())])
    return results


def hard() -> object:
    """Histories with many orders: a register with eight concurrent writes and a wrong read, and easier objects."""
    ops = [Operation(n, f"w{n}", "write", "x", n % 5, None, 0, 100) for n in range(8)]
    ops.append(Operation(20, "r", "read", "x", None, 77, 101, 102))
    easier = [Operation(30 + n, f"e{n}", "write", "e", n % 4, None, 0, 100) for n in range(6)]
    results = []
    for beside in ((), easier, [*easier, Operation(50, "er", "read", "e", None, 77, 101, 102)]):
        history = History((*ops, *beside))
        results += [decided(history, always(Registers()), budget) for budget in (700, 1_400, 2_600, 20_000)]
    return results
