"""The groups of checkers that are mutated, and the corpus of cases for each group.

A case asks checkers for a result, and holds the result of the unchanged checkers. It also records which functions it
calls, so that a mutation runs only against the cases that reach it, cheapest first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from harness.checkers import linear
from harness.checkers.controller.facts import Fact
from harness.checkers.partitions import producers
from harness.checkers.partitions.copies import ident_of
from harness.checkers.records.history import History as OfRecords
from harness.checkers.store import judge, watch_tables
from harness.checkers.store.case import Case as Prepared
from harness.checkers.store.linearize import operations
from harness.history import History, WatchFired
from kraft_controller.core.names import TopicId
from tests.checker_mutation import unit_tests
from tests.histories import algebra, controller, limits, liveness, oracle, partitions, transactions, verdicts, zab
from tests.histories.controller import settled
from tests.histories.corrupt import CORRUPTIONS
from tests.histories.ensemble import PATHS, legal
from tests.histories.mutate import mutated
from tests.histories.operations import KINDS, corrupt, true_history, without_zxids
from tests.histories.partitions import assignments, cleaning
from tests.histories.partitions import settled as at_rest
from tests.histories.records.corpus import histories, summary
from tests.histories.store import EXAMPLES

Action: TypeAlias = Callable[[], object]
Actions: TypeAlias = Iterator[tuple[str, Action]]


def _named(package: str, names: str) -> tuple[str, ...]:
    return tuple(f"harness.{package}.{name}" for name in names.split())


TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "zab": _named(
        "checkers", "leadership history durability delivery primary_order recovery service oracle_state judge"
    ),
    "spec": _named("checkers", "refinement specification"),
    "oracle": ("harness.oracle", "harness.availability"),
    "liveness": ("harness.worlds.cores.liveness",),
    "store": _named(
        "checkers.store",
        "case model replay log order image writes refusals sessions watch_tables watches linearize judge",
    ),
    "limits": (*_named("checkers.store", "quotas silence"), "harness.worlds.cores.store.server_deletions"),
    "linear": _named("checkers.linear", "certificate decide core models zones wgl znodes verify"),
    "controller": (
        *_named("checkers.controller", "case controllers partitions settled"),
        "harness.checkers.controller",
    ),
    "partitions": _named(
        "checkers.partitions", "assignments checkers commitment copies disks logs processes replicas settled"
    ),
    "records": _named("checkers.records", "case groups judge lost members polls values verify"),
    "transactions": _named("checkers", "transactions"),
    "disturbances": (*_named("checkers", "disturbances"), "harness.budgets"),
    "brokers": _named(
        "checkers.partitions", "fetch_sessions group_replies lag ledger observed positions producers stability waiting"
    ),
}
"""The modules of each group."""


BROKERS: Final = (
    "test_fetch_sessions_checker",
    "test_group_replies",
    "test_lag",
    "test_positions_checker",
    "test_producers_checker",
    "test_stability",
    "test_waiting",
)


@frozen
class Case:
    name: str
    ask: Action
    expected: object
    """The result of the unchanged checkers."""
    uses: frozenset[tuple[str, str]]
    """The functions that the case calls: file and qualified name."""
    calls: int
    seconds: float
    """CPU time of the case, while its calls were recorded."""


def case(name: str, ask: Action) -> Case:
    codes: dict[int, CodeType] = {}
    calls = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        codes[id(frame.f_code)] = frame.f_code

    kept = sys.gettrace()
    began = time.process_time()
    sys.settrace(called)
    try:
        expected = ask()
    finally:
        sys.settrace(kept)
    spent = time.process_time() - began
    uses = frozenset((code.co_filename, code.co_qualname.partition(".<locals>")[0]) for code in codes.values())
    return Case(name, ask, expected, uses, calls, spent)


def corpus(group: str) -> tuple[Case, ...]:
    return _made(CORPORA[group])


@cache
def _made(actions: Callable[[], Actions]) -> tuple[Case, ...]:
    """Return the cases, cheapest first. Groups may share a corpus."""
    return tuple(sorted((case(name, ask) for name, ask in actions()), key=lambda made: made.calls))


# -- the corpora -----------------------------------------------------------------------------------------


def zab_corpus() -> Actions:
    for example in zab.EXAMPLES.values():
        for bad in (False, True):
            name = f"{example.name}{', wrong' if bad else ''}"
            yield name, _violation(example, bad)
            yield f"{name}, by all checkers", _result(example, bad)


def _violation(example: zab.Example, bad: bool) -> Action:
    return lambda: zab.violation_of(example, bad)


def _result(example: zab.Example, bad: bool) -> Action:
    return lambda: zab.result_of(example, bad)


def controller_corpus() -> Actions:
    yield from settled.actions()
    for example in controller.EXAMPLES.values():
        for bad in (False, True):
            s = example.scenario(bad)
            history = History(tuple(s.events), tuple(s.changes))
            yield f"{example.name}{', wrong' if bad else ''}", _controller_result(history, tuple(s.facts))


def _controller_result(history: History, facts: tuple[Fact, ...]) -> Action:
    return lambda: controller.result_of(history, facts)


def _judged(history: History) -> Action:
    """Return an action with the whole verdict, its messages, and the prepared calls."""

    def judged() -> object:
        case = Prepared.of(history)
        verdict = judge(history)
        calls = [(call, call.zxid, call.done, call.write, str(call)) for call in case.calls.all]
        read = calls, case.calls.unclaimed, case.calls.strays, list(case.replay.groups.values())
        order = getattr(verdict.linear, "order", ())
        properties = (
            verdict.valid,
            verdict.unknown,
            verdict.invariant,
            verdict.what,
            verdict.store.what,
            verdict.store.broken,
        )
        return str(verdict), properties, order, read, _operations(case)

    return judged


def _operations(case: Prepared) -> object:
    """Return the operations, or the error if a violated invariant makes them contradictory."""
    try:
        return operations(case)
    except linear.HistoryError as error:
        return str(error)


def _judged_if_it_can_be(history: History) -> Action:
    """Return an action that also accepts errors: the history may contradict itself."""
    judged = _judged(history)

    def tried() -> object:
        try:
            return judged()
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            return repr(error)

    return tried


def _watched(history: History, seed: int) -> Action:
    """Return an action with the events of every kind of watch on every node, after jumps and reconnections."""

    def watched() -> object:
        chance = Random(seed)
        replay = Prepared.of(history).replay
        results: list[object] = []
        for _ in range(12):
            old, new = sorted(chance.sample((0, *replay.order), 2))
            changes = replay.groups[new].changes
            for table in (frozenset({(kind, path)}) for kind in watch_tables.KINDS for path in ("/", *PATHS)):
                results.append(
                    (
                        watch_tables.after_jump(table, replay, old, new, ""),
                        watch_tables.reconnected(table, old, replay, new, ""),
                    )
                )
                results.append(
                    watch_tables.events_for(table, tuple(watch_tables.steps_of(changes, replay.before(new))), new, "")
                )
        return results

    return watched


def _with_zeros(history: History) -> History:
    """Replace each unknown zxid of events by 0, the other form of an unknown zxid."""
    events = (evolve(each, zxid=max(each.zxid, 0)) if isinstance(each, WatchFired) else each for each in history.events)
    return evolve(history, events=tuple(events))


def store_corpus(*, legals: int = 24, corruptions: int = 2, mutations: int = 6) -> Actions:
    legal_histories = [legal(seed, steps=100) for seed in range(legals)]
    histories = [(name, example.history) for name, example in EXAMPLES.items()]
    histories += [(f"legal {seed}", history) for seed, history in enumerate(legal_histories)]
    for corruption in CORRUPTIONS:
        count = 0
        for seed, history in enumerate(legal_histories):
            made = corruption(Random(seed), history)
            if made is not None:
                histories.append((f"{corruption.__name__} {seed}", made))
                count += 1
            if count == corruptions:
                break
    histories += [
        (f"legal {seed}, jumps not seen", evolve(legal_histories[seed], jumps=None)) for seed in range(legals // 3)
    ]
    histories += [(f"{name}, zxids left out as 0", _with_zeros(example.history)) for name, example in EXAMPLES.items()]
    for name, history in histories:
        yield name, _judged(history)
    for seed in range(legals // 4):
        yield f"watched {seed}", _watched(legal_histories[seed], seed)
    for name, example in EXAMPLES.items():
        for seed in range(mutations):
            yield f"{name}, mutated {seed}", _judged_if_it_can_be(mutated(Random(f"{name}/{seed}"), example.history))


def linear_corpus(*, each: int = 60) -> Actions:
    """Yield small histories of every model, legal and corrupted, with and without zxids."""
    yield from verdicts.actions()
    for kind, (model, draw) in KINDS.items():
        for seed in range(each):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 6), clients=chance.randint(1, 4), unknown=0.2)
            for _ in range(seed % 3):
                history = corrupt(chance, history)
            if seed % 2:
                history = without_zxids(history)
            yield f"{kind} {seed}", _decided(history, algebra.always(model))
    for seed in range(each // 6):
        made = without_zxids(operations(Prepared.of(legal(seed, steps=100))))
        yield f"nodes {seed}", _decided(made, linear.Znodes.of)
        yield f"nodes {seed}, made", _decided(corrupt(Random(seed), made), linear.Znodes.of)


def _decided(history: linear.History, modelled: algebra.Modelled) -> Action:
    return lambda: algebra.decided(history, modelled)


def partitions_corpus() -> Actions:
    yield "an id", lambda: ident_of(TopicId("T1" + "0" * 20))
    yield from at_rest.actions()
    yield from assignments.actions()
    yield from cleaning.actions()
    yield from _examples(partitions.EXAMPLES.values())


def brokers_corpus() -> Actions:
    yield from unit_tests.actions(BROKERS)
    invariants = producers.REPLIES, producers.BY_VALUE
    yield from _examples(each for each in partitions.EXAMPLES.values() if each.breaks in invariants)


def _examples(examples: Iterable[partitions.Example]) -> Actions:
    for example in examples:
        for so in (False, True):
            yield f"{example.name}{'' if so else ', not'}", _partitions_result(example, so)


def _partitions_result(example: partitions.Example, so: bool) -> Action:
    return lambda: example.result(so)


def records_corpus() -> Actions:
    for name, history in histories():
        yield name, _summed_up(history)


def _summed_up(history: OfRecords) -> Action:
    return lambda: summary(history)


CORPORA: Final[dict[str, Callable[[], Actions]]] = {
    "zab": zab_corpus,
    "spec": zab_corpus,
    "oracle": oracle.actions,
    "liveness": liveness.actions,
    "store": store_corpus,
    "limits": limits.actions,
    "linear": linear_corpus,
    "controller": controller_corpus,
    "partitions": partitions_corpus,
    "records": records_corpus,
    "transactions": transactions.actions,
    "disturbances": partial(unit_tests.actions, ("test_disturbances", "test_budgets")),
    "brokers": brokers_corpus,
}
