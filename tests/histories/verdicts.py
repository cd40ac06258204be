"""The ways to a verdict, one by one, on small histories: with as much patience as they want, and with less."""

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
from tests.histories.algebra import PATHS, Action, Modelled, always, decided, nodes, refusals, walked
from tests.histories.operations import KINDS, corrupt, true_history, without_zxids

BUDGETS: Final = (1, 2, 3, 5, 8, 13, 30, 100)


def apart(history: History, modelled: Modelled) -> object:
    """Each judge by itself; the search in one go and in steps of one; the sum of all with less and less patience."""
    model = modelled(history.operations)
    said: list[object] = [certificate.certifiable(history), certificate.certify(history, model)]
    for part in decide.parts(history.operations, model):
        search = Search(part, model)
        said += [decide.by_zones(part, model), search.advance(2_000), search.steps, search.order, search.stuck]
        halting = Search(part, model)
        while halting.steps < 40 and halting.advance(1) is Answer.OPEN:
            said.append(halting.steps)
    for budget in BUDGETS:
        said.append(decided(history, modelled, budget))
        said.append(decided(history, modelled, core_steps=budget))
    return said


def verified(seed: int) -> object:
    """Every order of three operations, and those with one too many, too few or unknown; every core."""
    kind = sorted(KINDS)[seed % len(KINDS)]
    model, draw = KINDS[kind]
    chance = Random(seed)
    history = corrupt(chance, true_history(chance, model, draw, 4, clients=3, unknown=0.3))
    ids = [op.id for op in history.operations]
    orders = [*permutations(ids, 4), *permutations(ids, 3), (*ids, ids[0]), (*ids, 77)]
    said: list[object] = [verify.wrong_with_order(history, model, order) for order in orders]
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
        said += [verify.wrong_with_core(history, model, each) for each in (ops, cut, longer)]
        said += [verify.not_minimal(model, ops), verify.brute(ops, model)]
    return said


def actions() -> Iterator[tuple[str, Action]]:
    yield "what is no operation", refusals
    for name, history in registers.BY_HAND.items():
        yield f"{name}, apart", _asked(apart, history, always(Registers()))
        yield f"{name} in another order", _asked(apart, History(history.operations[::-1]), always(Registers()))
        yield f"{name}, verified", _asked(registers.tried, history, always(Registers()))
        yield f"{name}, zones alone", registers.zoned(history)
    yield "what has no proof", registers.unproved
    yield "nothing can be left out", registers.kept
    yield "registers.dice", registers.dice
    yield "much at once", registers.hard
    for seed in range(12):
        yield f"verified {seed}", _verified(seed)
    for seed in range(60):
        history = nodes(seed)
        yield f"nodes {seed}, walked", _asked(walked, history, Znodes.of)
        yield f"nodes {seed}, all tied, walked", _asked(walked, history, always(Znodes(frozenset(PATHS))))
        yield f"nodes {seed}, decided", _asked(decided, without_zxids(history), Znodes.of)
    for kind, (model, draw) in KINDS.items():
        for seed in range(20):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 8), clients=chance.randint(1, 4), unknown=0.2)
            yield f"{kind} {seed}, walked", _asked(walked, history, always(model))
            for _ in range(seed % 3):
                history = corrupt(chance, history)
            yield f"{kind} {seed}, apart", _asked(apart, history, always(model))
            yield f"{kind} {seed}, apart without zxids", _asked(apart, without_zxids(history), always(model))


def _asked(ask: Callable[[History, Modelled], object], history: History, modelled: Modelled) -> Action:
    return lambda: ask(history, modelled)


def _verified(seed: int) -> Action:
    return lambda: verified(seed)
