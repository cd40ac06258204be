"""The methods for a verdict, one by one, on small histories, with large and small budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from random import Random
from typing import Final

from attrs import evolve

from harness.checkers.linear import (
    UNKNOWN,
    History,
    Znodes,
    certificate,
    decide,
    verify,
)
from harness.checkers.linear.models import Registers
from harness.checkers.linear.wgl import Answer, Search
from tests.histories import registers
from tests.histories.algebra import PATHS, Action, Modelled, always, decided, nodes, not_minimal, refusals, walked
from tests.histories.operations import KINDS, corrupt, true_history, without_zxids

BUDGETS: Final = (1, 2, 3, 5, 8, 13, 30, 100)


def every_method(history: History, modelled: Modelled) -> object:
    """Return the results of each method, of the search in single steps, and of the whole for falling budgets."""
    model = modelled(history.operations)
    results: list[object] = [certificate.certifiable(history), certificate.certify(history, model)]
    for part in decide.parts(history.operations, model):
        search = Search(part, model)
        results += [decide.by_zones(part, model), search.advance(2_000), search.steps, search.order, search.stuck]
        halting = Search(part, model)
        while halting.steps < 40 and halting.advance(1) is Answer.OPEN:
            results.append(halting.steps)
    for budget in BUDGETS:
        results.append(decided(history, modelled, budget))
        results.append(decided(history, modelled, core_steps=budget))
    return results


def verified(seed: int) -> object:
    """Return the verification of orders with missing, extra and unknown operations, and of all cores."""
    kind = sorted(KINDS)[seed % len(KINDS)]
    model, draw = KINDS[kind]
    chance = Random(seed)
    history = corrupt(chance, true_history(chance, model, draw, 4, clients=3, unknown=0.3))
    ids = [op.id for op in history.operations]
    orders = [*permutations(ids, 4), *permutations(ids, 3), (*ids, ids[0]), (*ids, 77)]
    results: list[object] = [verify.wrong_with_order(history, model, order) for order in orders]
    first = history.operations[0]
    strange = [
        (evolve(first, key="?"),),
        (evolve(first, id=99),),
        (evolve(first, result=UNKNOWN),),
        (evolve(first, ret=None),),
    ]
    for ops in (*permutations(history.operations, 2), history.operations, *strange):
        cut = [evolve(op, ret=None, result=UNKNOWN) for op in ops]
        longer = [evolve(op, ret=(op.ret or 0) + 1, result=op.value) for op in ops]
        results += [verify.wrong_with_core(history, model, each) for each in (ops, cut, longer)]
        results += [not_minimal(model, ops), verify.brute(ops, model)]
    return results


def actions() -> Iterator[tuple[str, Action]]:
    yield "invalid operations", refusals
    for name, history in registers.BY_HAND.items():
        yield f"{name}, every method", _action(every_method, history, always(Registers()))
        yield f"{name} in another order", _action(every_method, History(history.operations[::-1]), always(Registers()))
        yield f"{name}, verified", _action(registers.all_orders, history, always(Registers()))
        yield f"{name}, zones alone", registers.zoned(history)
    yield "wrong proofs", registers.wrong_proofs
    yield "minimal core", registers.minimal_core
    yield "registers.dice", registers.dice
    yield "many orders", registers.hard
    for seed in range(12):
        yield f"verified {seed}", _verified(seed)
    for seed in range(60):
        history = nodes(seed)
        yield f"nodes {seed}, walked", _action(walked, history, Znodes.of)
        yield f"nodes {seed}, all tied, walked", _action(walked, history, always(Znodes(frozenset(PATHS))))
        yield f"nodes {seed}, decided", _action(decided, without_zxids(history), Znodes.of)
    for kind, (model, draw) in KINDS.items():
        for seed in range(20):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 8), clients=chance.randint(1, 4), unknown=0.2)
            yield f"{kind} {seed}, walked", _action(walked, history, always(model))
            for _ in range(seed % 3):
                history = corrupt(chance, history)
            yield f"{kind} {seed}, every method", _action(every_method, history, always(model))
            yield (
                f"{kind} {seed}, every method without zxids",
                _action(every_method, without_zxids(history), always(model)),
            )


def _action(action: Callable[[History, Modelled], object], history: History, modelled: Modelled) -> Action:
    return lambda: action(history, modelled)


def _verified(seed: int) -> Action:
    return lambda: verified(seed)
