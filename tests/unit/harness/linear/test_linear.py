"""Verdicts of all methods, compared with an exhaustive search over all orders."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers.linear import Illegal, Legal, Registers, Unknown, check
from harness.checkers.linear.certificate import certify
from harness.checkers.linear.decide import by_zones, parts
from harness.checkers.linear.history import History, Operation
from harness.checkers.linear.verify import brute, wrong_with_core, wrong_with_order
from harness.checkers.linear.wgl import Answer, Search
from tests.histories.algebra import not_minimal
from tests.histories.operations import KINDS, corrupt, true_history, without_zxids

seeds = st.integers(0, 2**32)
kinds = pytest.mark.parametrize("kind", KINDS)
SMALL = 7


def small(kind: str, seed: int) -> History:
    chance = Random(seed)
    model, draw = KINDS[kind]
    history = true_history(chance, model, draw, chance.randint(1, SMALL), clients=chance.randint(1, 4), unknown=0.2)
    for _ in range(chance.randrange(3)):
        history = corrupt(chance, history)
    return history


@kinds
@settings(max_examples=20)
@given(seed=seeds)
def test_history_of_the_model_is_legal_by_every_method(kind: str, seed: int) -> None:
    chance = Random(seed)
    model, draw = KINDS[kind]
    history = true_history(chance, model, draw, 30, clients=4, unknown=0.05)
    certified = certify(history, model)
    assert isinstance(certified, Legal), certified
    assert wrong_with_order(history, model, certified.order) is None
    bare = without_zxids(history)
    verdict = check(bare, model)
    assert isinstance(verdict, Legal), verdict
    assert wrong_with_order(bare, model, verdict.order) is None
    for part in parts(bare.operations, model):
        search = Search(part, model)
        assert search.advance(1_000_000) is Answer.LEGAL
        assert wrong_with_order(History(part), model, search.order) is None
        if kind == "unique":
            found = by_zones(part, model)
            assert isinstance(found, Legal)
            assert wrong_with_order(History(part), model, found.order) is None


@kinds
def test_every_method_agrees_with_exhaustive_search(kind: str) -> None:
    model, _ = KINDS[kind]
    verdicts = {True: 0, False: 0}
    for seed in range(300):
        history = small(kind, seed)
        legal = brute(history.operations, model)
        verdicts[legal] += 1
        search = Search(history.operations, model)
        assert search.advance(100_000) is (Answer.LEGAL if legal else Answer.ILLEGAL), f"seed {seed}\n{history}"
        found = [by_zones(part, model) for part in parts(history.operations, model)]
        if None not in found:
            assert legal == all(isinstance(one, Legal) for one in found), f"seed {seed}\n{history}"
            for one in found:
                assert not isinstance(one, Illegal) or not brute(one.core, model)
        for judged in (history, without_zxids(history)):
            verdict = check(judged, model)
            assert isinstance(verdict, Legal if legal else Illegal), f"seed {seed}\n{history}\n{verdict}"
            if isinstance(verdict, Legal):
                assert wrong_with_order(judged, model, verdict.order) is None
            elif isinstance(verdict, Illegal):
                assert verdict.minimal
                assert wrong_with_core(judged, model, verdict.core) is None, f"seed {seed}\n{history}\n{verdict}"
                assert not_minimal(model, verdict.core) is None, f"seed {seed}\n{history}\n{verdict}"
        if isinstance(certify(history, model), Legal):
            assert legal
    assert min(verdicts.values()) > 25, verdicts


@kinds
def test_removing_a_removable_operation_keeps_a_legal_history_legal(kind: str) -> None:
    model, _ = KINDS[kind]
    removed = 0
    for seed in range(300):
        history = small(kind, seed)
        if brute(history.operations, model):
            for op in history.operations:
                rest = [other for other in history.operations if other is not op]
                if model.removable(op, rest):
                    removed += 1
                    assert brute(rest, model), f"seed {seed}: without #{op.id}\n{history}"
    assert removed > 25


@kinds
@given(seed=seeds)
def test_resumed_search_has_the_same_result(kind: str, seed: int) -> None:
    model, _ = KINDS[kind]
    history = small(kind, seed)
    whole, halting = Search(history.operations, model), Search(history.operations, model)
    whole.advance(100_000)
    while halting.advance(1) is Answer.OPEN:
        pass
    assert (halting.answer, halting.steps, halting.order) == (whole.answer, whole.steps, whole.order)


def test_too_small_budget_gives_unknown_with_the_open_part() -> None:
    model, draw = KINDS["compared"]
    history = without_zxids(true_history(Random(1), model, draw, 100))
    verdict = check(history, model, budget=20)
    assert isinstance(verdict, Unknown)
    assert verdict.spent == 20
    assert verdict.open == ("a: 100 operations",)
    assert "unknown after 20 steps: a: 100 operations" in str(verdict)


def test_easy_illegal_object_is_found_despite_a_hard_one() -> None:
    """The hard object needs a search through all orders of 18 concurrent writes. The easy one has a wrong read."""
    hard = [Operation(n, f"w{n}", "write", "hard", n % 5, None, 0, 100) for n in range(18)]
    hard += [Operation(20, "r", "read", "hard", None, 77, 101, 102)]
    easy = [
        Operation(30, "x", "write", "easy", 1, None, 0, 1),
        Operation(31, "x", "write", "easy", 1, None, 2, 3),
        Operation(32, "x", "read", "easy", None, 2, 4, 5),
    ]
    verdict = check(History((*hard, *easy)), Registers(), budget=20_000)
    assert isinstance(verdict, Illegal)
    assert [op.id for op in verdict.core] == [32]


def test_ten_thousand_operations_take_a_few_steps_each() -> None:
    model = Registers()
    history = true_history(Random(7), model, _write_or_read, 10_000, unknown=0)
    certified = check(history, model, budget=20_000)
    assert isinstance(certified, Legal)
    assert (certified.by, certified.steps) == ("certificate", 10_000)
    sorted_ = check(without_zxids(history), model, budget=30_000)
    assert isinstance(sorted_, Legal)
    assert sorted_.by == "zones"
    assert sorted_.steps <= 30_000


def _write_or_read(chance: Random, number: int) -> tuple[str, str, int | None]:
    return ("write", "a", number + 1) if chance.random() < 0.5 else ("read", "a", None)
