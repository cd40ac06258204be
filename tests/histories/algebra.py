"""Direct queries to the models: states and algebra, step by step on legal histories, and for invalid operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from attrs import evolve

from harness.checkers import linear
from harness.checkers.linear import (
    UNKNOWN,
    History,
    HistoryError,
    Model,
    Operation,
    Znodes,
)
from harness.checkers.linear.history import Value
from harness.checkers.linear.models import CasRegisters, Counters, Queues, Registers, Store
from harness.checkers.linear.verify import brute

Modelled = Callable[[Iterable[Operation]], Model]
Action = Callable[[], object]


def always(model: Model) -> Modelled:
    return lambda operations: model


# -- histories of nodes --------------------------------------------------------------------------------

PATHS: Final = ("/", "/a", "/b", "/a/x", "/a/y", "/b/x", "/a/n0000000000", "/a/n0000000001")
MODES: Final = ("", "", "ephemeral", "sequential", "ephemeral sequential")


def _part(chance: Random, kind: str, path: str) -> Value:
    match kind:
        case "create":
            return chance.choice("pq"), chance.choice(MODES)
        case "set":
            return chance.choice("pq"), chance.choice((-1, 0, 1))
        case "delete" | "check":
            return chance.choice((-1, 0, 1))
        case _:
            return None


def drawn(chance: Random) -> tuple[str, str, Value]:
    kinds = ("create",) * 5 + ("set", "delete", "delete", "get", "exists", "data", "there", "children", "close")
    kind = chance.choice((*kinds, "multi", "multi", "multi", "multi"))
    path = chance.choice(PATHS)
    if kind == "close":
        return kind, "", tuple(chance.sample(PATHS[1:], chance.randint(1, 3)))
    if kind == "multi":
        read = chance.random() < 0.3
        parts = []
        for _ in range(chance.randint(1, 3)):
            one = chance.choice(
                ("get", "children", "exists") if read else ("create", "create", "set", "delete", "check")
            )
            at = chance.choice(PATHS)
            parts.append((one, at, _part(chance, one, at)))
        return kind, "", tuple(parts)
    return kind, path, _part(chance, kind, path)


def nodes(seed: int, count: int = 8) -> History:
    """Return a history of two clients with overlapping operations, some of them without a reply."""
    chance = Random(seed)
    tree: dict[str, tuple[Value, int, int, bool]] = {}
    whole = Znodes(frozenset(PATHS))
    made = []
    for number in range(count):
        kind, path, value = drawn(chance)
        client = chance.choice("cd")
        op = Operation(number, f"{client}{number}", kind, path, value, UNKNOWN, 10 * number, None, 2 * number + 2)
        before = dict(tree)
        answer = whole.answers(tree, op)
        if chance.random() < 0.1:
            if chance.random() < 0.5:
                tree = before
                op = evolve(op, zxid=None)
        else:
            op = evolve(op, result=answer, ret=10 * number + chance.randint(1, 25))
        made.append(op)
    return History(tuple(made))


# -- step by step --------------------------------------------------------------------------------------


def walked(history: History, modelled: Modelled) -> object:
    """Return the next states and the algebra of each operation: with its result, without one, and with another's."""
    ops = history.operations
    model = modelled(ops)
    state = model.initial()
    results: list[object] = [model]
    for place, op in enumerate(ops):
        bare = evolve(op, result=UNKNOWN, ret=None)
        other = evolve(op, result=ops[place - 1].result)
        rest = [each for each in ops if each is not op]
        results.append([
            *(model.step(state, one) for one in (op, bare, other)),
            model.pure(op), model.pure(bare), list(model.touches(op)),
            model.removable(op, rest), model.removable(op, rest[place:]), model.removable(op, ()),
            model.removable(bare, rest),
        ])  # fmt: skip
        after = model.step(state, op) or model.step(state, bare)
        state = after[0]
    return results


def _op(kind: str, value: Value = None, key: str = "a", result: object = None) -> Operation:
    return Operation(1, "c", kind, key, value, result, 0, 1)  # type: ignore[arg-type]


NO_OPERATIONS: Final[tuple[tuple[Model, Operation], ...]] = (
    (Registers(), _op("cas", (0, 1))), (Registers(), _op("jump")), (CasRegisters(), _op("cas", 5)),
    (CasRegisters(), _op("cas", (1, 2, 3))), (CasRegisters(), _op("cas", (1,))), (CasRegisters(), _op("cas", "ab")),
    (CasRegisters(), _op("multi", ())), (Store(), _op("multi", ())), (Store(), _op("multi", None)),
    (Store(), _op("multi", (("jump", "a", 1),))), (Store(), _op("multi", (("read", "a", None), ("read", "a")))),
    (Store(), _op("multi", (("read", 1, None),))), (Store(), _op("multi", (("cas", "a", 1),))),
    (Counters(), _op("add", "x")), (Counters("x"), _op("add", 1)), (Counters(), _op("put", 1)), (Queues(), _op("get")),
    (Znodes(), _op("jump", None, "/a")), (Znodes(), _op("multi", 5, "")), (Znodes(), _op("multi", ("x",), "")),
    (Znodes(), _op("multi", (("create", "/a", 5),), "")), (Znodes(), _op("multi", (("sync", "/a", 5),), "")),
    (Znodes(), _op("create", 5, "/a")), (Znodes(), _op("create", ("x", 5), "/a")),
    (Znodes(), _op("create", ("x", "", ""), "/a")), (Znodes(), _op("create", "ab", "/a")),
    (Znodes(), _op("close", "/a", "")), (Znodes(), _op("set", ("x",), "/")), (Znodes(), _op("multi", (), "", ())),
)  # fmt: skip
MORE: Final[tuple[tuple[Model, Operation], ...]] = (
    (Store(), _op("delete")),
    (Store(), _op("multi", (("delete", "a", None), ("check", "a", None)), "", (None, True))),
    (Store(), _op("multi", (("write", "a", None),), "", (None,))),
    (Store(), _op("multi", (("write", "a", 0),), "", (False,))),
    (Store(), _op("multi", (("write", "a", 0), ("read", "b", None)), "", (None, None))),
    (Store("none"), _op("delete")),
    (Store(), _op("multi", (("write", "a", False), ("read", "a", None)), "", (None, False))),
    (Counters(), _op("add", 2, result=2)), (Queues(), _op("take")), (Queues(), _op("put", 2)),
    (Znodes(frozenset("/")), _op("create", ("x", "sequential"), "/", "/0000000000")),
    (Znodes(frozenset("/")), _op("create", ("x", ""), "/", "NODE_EXISTS")), (Znodes(), _op("delete", -1, "/")),
    (Znodes(), _op("close", ("/a",), "", "NO_NODE")),
    (Znodes(), _op("multi", (("get", "/a", None),), "", ("NO_NODE",))),
    (Znodes(), _op("multi", (("get", "/a", None), ("create", "/a", ("x", ""))), "", ("NO_NODE", "/a"))),
    (Znodes(), _op("multi", (("check", "/", 0),), "", (None,))),
    (Znodes(), _op("multi", (("check", "/", 1),), "", ("BAD_VERSION",))),
    (Znodes(), _op("multi", (("check", "/", 0), ("set", "/", ("x", -1))), "", (None, 1))),
)  # fmt: skip


def refusals() -> object:
    """Return the errors for invalid operations, and the results of some valid ones in the initial state."""
    results: list[object] = []
    for model, op in (*NO_OPERATIONS, *MORE):
        asked: tuple[Action, ...] = (
            lambda: model.step(model.initial(), op),  # noqa: B023 - called at once
            lambda: model.pure(op),  # noqa: B023
            lambda: list(model.touches(op)),  # noqa: B023
            lambda: model.removable(op, (op,)),  # noqa: B023
        )
        results.append([_or_refused(action) for action in asked])
        results.append(_or_refused(lambda: Znodes.of([op])))  # noqa: B023
    return results


def _or_refused(action: Action) -> object:
    try:
        return action()
    except (HistoryError, AssertionError) as error:
        return repr(error)


def not_minimal(model: Model, core: Sequence[Operation]) -> Operation | None:
    """Return an operation that could be dropped from the core without making it legal, or None."""
    for op in core:
        rest = [other for other in core if other is not op]
        if model.removable(op, rest) and not brute(rest, model):
            return op
    return None


def decided(history: History, modelled: Modelled, budget: int = 20_000, core_steps: int = 20_000) -> object:
    verdict = linear.check(history, modelled(history.operations), budget, core_steps=core_steps)
    return verdict, str(verdict)
