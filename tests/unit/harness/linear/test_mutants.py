"""Mutants of the methods: the comparison with the exhaustive search must detect each."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import pytest

from harness.checkers.linear import Legal, certificate, core, decide, models, wgl, zones
from harness.checkers.linear.history import History, Operation
from harness.checkers.linear.verify import brute, wrong_with_order
from tests.histories.operations import KINDS, corrupt, true_history

TRIES = 2_000


def mutated(module: ModuleType, old: str, new: str) -> dict[str, Any]:
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {module.__name__}"
    made = ModuleType(module.__name__ + "_mutant")
    sys.modules[made.__name__] = made  # attrs looks up where its classes live
    scope = vars(made)
    exec(compile(source.replace(old, new), f"<mutant of {module.__name__}>", "exec"), scope)
    return scope


AT_ONE_INSTANT = History(
    (
        Operation(1, "a", "write", "x", 1, None, 0, 5),
        Operation(2, "b", "write", "x", 2, None, 5, 6),
        Operation(3, "a", "read", "x", None, 1, 10, 11),
    )
)
"""A history in which 2 must precede 1, both at the instant 5. Random histories rarely contain this."""


@cache
def histories(kind: str) -> Sequence[History]:
    model, draw = KINDS[kind]
    made = [AT_ONE_INSTANT] if kind == "unique" else []
    for seed in range(TRIES):
        chance = Random(seed)
        history = true_history(chance, model, draw, chance.randint(2, 6), clients=chance.randint(1, 4), unknown=0.2)
        for _ in range(chance.randrange(3)):
            history = corrupt(chance, history)
        made.append(history)
    return made


def wrong_search(scope: dict[str, Any], kind: str, history: History) -> bool:
    model, _ = KINDS[kind]
    search = scope["Search"](history.operations, model)
    answer = search.advance(20_000).value
    if answer == "legal" and wrong_with_order(history, model, search.order) is not None:
        return True
    return bool(answer != ("legal" if brute(history.operations, model) else "illegal"))


def wrong_zones(scope: dict[str, Any], kind: str, history: History) -> bool:
    model, _ = KINDS[kind]
    for part in decide.parts(history.operations, model):
        found = scope["decide"](part, None)
        if found is None:
            continue
        ordered = hasattr(found, "order")
        if ordered != brute(part, model):
            return True
        if ordered and wrong_with_order(History(part), model, found.order) is not None:
            return True
        if not ordered and brute(found.core, model):
            return True
    return False


def wrong_certificate(scope: dict[str, Any], kind: str, history: History) -> bool:
    """Return whether the mutant certifies a wrong order, or refuses one that the original certifies."""
    model, _ = KINDS[kind]
    found = scope["certify"](history, model)
    if hasattr(found, "order"):
        return wrong_with_order(history, model, found.order) is not None
    return isinstance(certificate.certify(history, model), Legal)


MUTANTS: list[tuple[Any, ModuleType, str, str, str]] = [
    # The order of the zxids.
    (wrong_certificate, certificate, "op.before(latest)", "False", "repeated"),
    (wrong_certificate, certificate, "op.call > latest.call", "op.call < latest.call", "repeated"),
    (wrong_certificate, certificate, "if not states or", "if", "repeated"),
    (wrong_certificate, certificate, "op.zxid, pure, op.call", "-op.zxid, pure, op.call", "repeated"),
    (wrong_certificate, certificate, "if op.known or not pure:", "if op.known:", "repeated"),
    # Zones.
    (wrong_zones, zones, "if next_one.first_return < one.last_call:", "if False:", "unique"),
    (wrong_zones, zones, "if around >= 0 and zone.first_return < forward[around].last_call:", "if False:", "unique"),
    (wrong_zones, zones, "if read.before(write)", "if False", "unique"),
    (wrong_zones, zones, "if value != unwritten:", "if False:", "unique"),
    (wrong_zones, zones, "if write is None:\n        return _Zone", "if False:\n        return _Zone", "unique"),
    (
        wrong_zones,
        zones,
        "return self.first_return < self.last_call",
        "return self.first_return > self.last_call",
        "unique",
    ),
    (
        wrong_zones,
        zones,
        "max(operations, key=lambda op: op.call)",
        "min(operations, key=lambda op: op.call)",
        "unique",
    ),
    (wrong_zones, zones, "if op.value in writes or op.value == unwritten:", "if False:", "repeated"),
    (wrong_zones, zones, "(zone.last_call, False, zone)", "(zone.last_call, 2, zone)", "unique"),
    (wrong_zones, zones, "if op.result not in (None, UNKNOWN):", "if False:", "unique"),
    # The search.
    (wrong_search, wgl, "(op.ret, True, 2 * number + 1)", "(op.ret, -1, 2 * number + 1)", "repeated"),
    (
        wrong_search,
        wgl,
        "key = (base, window, floating, states[at])",
        "key = (base, window, floating, None)",
        "repeated",
    ),
    (
        wrong_search,
        wgl,
        "key = (base, window, floating, states[at])",
        "key = (0, window, floating, states[at])",
        "compared",
    ),
    (wrong_search, wgl, "key = (base, window, floating, states[at])", "key = (base, window, 0, states[at])", "counted"),
    (wrong_search, wgl, "[model.pure(op) for op in self._ops]", "[True for op in self._ops]", "repeated"),
    (
        wrong_search,
        wgl,
        "self._configuration = frame.before",
        "self._configuration = *frame.before[:2], self._configuration[2], frame.before[3]",
        "counted",
    ),
    (wrong_search, wgl, "if op.known or not model.pure(op)]", "if op.known]", "repeated"),
    (
        wrong_search,
        wgl,
        "self._entry, self._choice = frame.entry, frame.choice + 1",
        "self._entry, self._choice = self._next[self._next[frame.entry]], 0",
        "repeated",
    ),
    (
        wrong_search,
        wgl,
        "self._next[before], self._prev[behind] = behind, before",
        "self._next[before] = behind",
        "repeated",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "module", "old", "new", "kind"),
    MUTANTS,
    ids=[f"{m.__name__[24:]}-{n}" for n, (_, m, *_) in enumerate(MUTANTS)],
)
def test_mutant_is_detected(wrong: Any, module: ModuleType, old: str, new: str, kind: str) -> None:
    whole = vars(module)
    scope = mutated(module, old, new)
    for history in histories(kind):
        assert not wrong(whole, kind, history)
        if _notices(wrong, scope, kind, history):
            return
    pytest.fail(f"{TRIES} histories did not detect the mutant")


def _notices(wrong: Any, scope: dict[str, Any], kind: str, history: History) -> bool:
    try:
        return bool(wrong(scope, kind, history))
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return True  # an exception is a detection


REMOVALS: list[tuple[str, str, str]] = [
    (
        'return all(other.kind == "write" or other.result != op.value for other in rest if other.key == op.key)',
        "return True",
        "repeated",
    ),
    (
        "_refused(other) or _pair(other.kind, other.value)[0] == value",
        "_pair(other.kind, other.value)[0] == value",
        "compared",
    ),
    ("_refused(other) or _pair(other.kind, other.value)[0] == value", "_refused(other)", "compared"),
    ("and other.result in (value, UNKNOWN)", "and False", "compared"),
    ("return not near", "return True", "stored"),
    ("and all(other.kind in CasRegisters.KINDS for other in near)", "", "stored"),
]


@pytest.mark.parametrize(("old", "new", "kind"), REMOVALS)
def test_too_permissive_removable_is_detected(old: str, new: str, kind: str) -> None:
    """A core proves the whole history illegal only if `removable` is sound."""
    name = type(KINDS[kind][0]).__name__
    model = mutated(models, old, new)[name]()
    for history in histories(kind):
        if brute(history.operations, model):
            for op in history.operations:
                rest = [other for other in history.operations if other is not op]
                if model.removable(op, rest) and not brute(rest, model):
                    return
    pytest.fail(f"{TRIES} histories did not detect the mutant")


def test_wrong_cut_of_a_history_is_detected() -> None:
    """A history that is cut at an instant must not have later results."""
    scope = mutated(core, "op.ret <= instant", "op.call <= instant")
    for history in histories("compared"):
        model, _ = KINDS["compared"]
        if brute(history.operations, model):
            for instant in {op.ret for op in history.operations if op.ret is not None}:
                assert brute(core.until(history.operations, instant), model)
                if not brute(scope["until"](history.operations, instant), model):
                    return
    pytest.fail(f"{TRIES} histories did not detect the mutant")
