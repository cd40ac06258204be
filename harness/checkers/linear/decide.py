"""Decide whether a history is linearizable: cheap methods first, then a search. Every verdict has a proof.

The first method checks the order of the zxids for the whole history. Then the history is split into parts that share no
object; it is legal exactly if all parts are. Registers with unique values are sorted (`zones`). All other parts are
searched in turn, each with twice the steps of the round before, so that a hard legal part cannot use up the budget
before an easy illegal one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from attrs import define, evolve, field

from harness.checkers.linear import certificate, verify, zones
from harness.checkers.linear.core import minimize, without_removable
from harness.checkers.linear.history import History, Operation
from harness.checkers.linear.models import Model, Registers
from harness.checkers.linear.verdict import Illegal, Legal, Unknown, Verdict
from harness.checkers.linear.wgl import Answer, Search

BUDGET: Final = 2_000_000
"""The steps for one history, which take some seconds."""
FIRST_ROUND: Final = 1_000
CORE_SHARE: Final = 4
"""The budget of a core, as a multiple of the steps of the verdict; at least `CORE_STEPS_MIN`."""
CORE_STEPS_MIN: Final = 100_000


def check(history: History, model: Model, budget: int = BUDGET, *, core_steps: int = CORE_STEPS_MIN) -> Verdict:
    """Decide the history within `budget` steps, which includes the cheap methods.

    Minimizing a core has its own budget: `CORE_SHARE` times the steps of the verdict, and at least `core_steps`.
    """
    notes: tuple[str, ...] = ()
    spent = 0
    if history.operations and certificate.certifiable(history):
        if len(history.operations) > budget:
            each = f"all {len(history.operations)} operations, each of which takes a step to replay"
            return Unknown(spent, (each,), notes)
        claim = certificate.certify(history, model)
        if isinstance(claim, Legal):
            return proved(claim, history, model)
        spent = claim.steps
        notes = (f"the order of the zxids is not legal: {claim.why}",)
    judged = _judge(parts(history.operations, model), model, budget, spent, notes)
    if isinstance(judged, Illegal):
        judged = _with_small_core(judged, model, core_steps)
    return proved(judged, history, model)


def proved(verdict: Verdict, history: History, model: Model) -> Verdict:
    """Verify the proof of a verdict, and return the verdict. Raise AssertionError if the proof is wrong."""
    if isinstance(verdict, Legal):
        wrong = verify.wrong_with_order(history, model, verdict.order)
    elif isinstance(verdict, Illegal) and len(verdict.core) <= verify.BRUTE_OPERATIONS_MAX:
        wrong = verify.wrong_with_core(history, model, verdict.core)
    else:
        return verdict
    if wrong is not None:
        raise AssertionError(f"the checker is wrong, please report the history: {wrong}\n{verdict}\n{history}")
    return verdict


def parts(operations: Iterable[Operation], model: Model) -> list[tuple[Operation, ...]]:
    """Split the operations into parts: operations that share objects, directly or through others, are in one part."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    ops = sorted(operations, key=lambda op: (op.call, op.id))
    for op in ops:
        first, *others = model.touches(op)
        for other in others:
            leader[find(other)] = find(first)
    grouped: dict[str, list[Operation]] = {}
    for op in ops:
        grouped.setdefault(find(model.touches(op)[0]), []).append(op)
    return [tuple(group) for group in grouped.values()]


@define
class _Part:
    operations: tuple[Operation, ...]
    search: Search
    order: tuple[int, ...] | None = field(default=None)

    def __str__(self) -> str:
        return f"{self.operations[0].key}: {len(self.operations)} operations"


def _judge(
    groups: Sequence[tuple[Operation, ...]], model: Model, budget: int, spent: int = 0, notes: tuple[str, ...] = ()
) -> Verdict:
    orders: list[tuple[int, ...]] = []
    waiting: list[_Part] = []
    for group in groups:
        found = by_zones(group, model)
        if found is not None:
            spent += found.steps
        if isinstance(found, Illegal):
            return evolve(found, steps=spent, notes=notes)
        if isinstance(found, Legal):
            orders.append(found.order)
        else:
            waiting.append(_Part(group, Search(_noticed(group, model), model)))
    by = "search" if waiting else "zones"
    quantum = FIRST_ROUND
    while waiting:
        for part in waiting:
            before = part.search.steps
            answer = part.search.advance(min(quantum, budget - spent))
            spent += part.search.steps - before
            if answer is Answer.ILLEGAL:
                why = f"#{part.search.stuck.id if part.search.stuck else '?'} fits into no order"
                return Illegal(part.operations, why, "search", spent, False, notes)
            if answer is Answer.LEGAL:
                part.order = part.search.order
                orders.append(part.order)
        waiting = [part for part in waiting if part.order is None]
        if waiting and spent >= budget:
            return Unknown(spent, tuple(str(part) for part in waiting), notes)
        quantum *= 2
    ops = {op.id: op for group in groups for op in group}
    return Legal(_merged(orders, ops), by, spent, notes)


def by_zones(operations: Sequence[Operation], model: Model) -> Legal | Illegal | None:
    """Decide by zones. Return None if these are not reads and writes of a register, or its values are not unique."""
    if not isinstance(model, Registers) or any(op.kind not in ("read", "write") for op in operations):
        return None
    return zones.decide(operations, model.unwritten)


def _noticed(operations: Sequence[Operation], model: Model) -> list[Operation]:
    """Drop the operations without a reply that no other operation has seen: they may never have happened.

    Each remaining one doubles the number of orders, up to the end of the history.
    """
    return without_removable(operations, [op for op in operations if not op.known], model)


def _merged(orders: Sequence[tuple[int, ...]], ops: dict[int, Operation]) -> tuple[int, ...]:
    """Merge the orders of the parts into one.

    Each operation takes effect at the latest call up to its position in the order of its part. That instant is within
    its own interval, since the order keeps real time, and not before that of its predecessors. The instants define the
    merged order.
    """
    placed = []
    for number, order in enumerate(orders):
        instant = -inf
        for place, name in enumerate(order):
            instant = max(instant, ops[name].call)
            placed.append((instant, number, place, name))
    return tuple(name for *_, name in sorted(placed))


def _with_small_core(found: Illegal, model: Model, steps_min: int) -> Illegal:
    left = max(steps_min, CORE_SHARE * found.steps)
    spent = found.steps
    whole = True

    def illegal(operations: Sequence[Operation]) -> bool:
        nonlocal left, spent, whole
        if left <= 0:
            whole = False
            return False
        verdict = _judge(parts(operations, model), model, left)
        cost = verdict.spent if isinstance(verdict, Unknown) else verdict.steps
        left -= cost + 1
        spent += cost
        whole = whole and not isinstance(verdict, Unknown)
        return isinstance(verdict, Illegal)

    core = tuple(sorted(minimize(found.core, model, illegal), key=lambda op: (op.call, op.id)))
    again = _judge(parts(core, model), model, max(found.steps, steps_min))
    why = again.why if isinstance(again, Illegal) else found.why
    return Illegal(core, why, found.by, spent, whole, found.notes)
