"""The groups of checkers that are mutated, and the corpus of cases for each group.

A case asks checkers for a result, and holds the result of the unchanged checkers. It also records which functions it
calls, so that a mutation runs only against the cases that reach it, cheapest first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from harness.checkers import linear
from harness.checkers.controller.facts import Fact
from harness.checkers.partitions.copies import ident_of
from harness.checkers.records.history import History as OfRecords
from harness.checkers.store import judge, watching
from harness.checkers.store.case import Case as Prepared
from harness.checkers.store.linearize import operations
from harness.history import History, WatchFired
from kraft_controller.core.names import TopicId
from tests.histories import algebra, controller, limits, liveness, oracle, partitions, transactions, verdicts, zab
from tests.histories.controller import settled
from tests.histories.ensemble import PATHS, legal
from tests.histories.operations import KINDS, spoil, true_history, without_zxids
from tests.histories.partitions import cleaning, shares
from tests.histories.partitions import settled as at_rest
from tests.histories.records.bank import histories, summary
from tests.histories.spoil import SPOILERS
from tests.histories.stories import STORIES
from tests.histories.twist import twisted

Deed: TypeAlias = Callable[[], object]
Deeds: TypeAlias = Iterator[tuple[str, Deed]]


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
        "checkers.store", "case model replay log order image writes refusals sessions watching watches linearize judge"
    ),
    "limits": (*_named("checkers.store", "quotas silence"), "harness.worlds.cores.store.server_deletions"),
    "linear": _named("checkers.linear", "certificate decide core models zones wgl znodes verify"),
    "controller": (
        *_named("checkers.controller", "case controllers partitions settled"),
        "harness.checkers.controller",
    ),
    "partitions": _named("checkers.partitions", "commitment copies disks keeper lives logs replicas settled shares"),
    "records": _named("checkers.records", "case groups judge lost members polls values verify"),
    "transactions": _named("checkers", "transactions"),
}
"""The modules of each group."""


@frozen
class Case:
    name: str
    ask: Deed
    expected: object
    """The result of the unchanged checkers."""
    uses: frozenset[tuple[str, str]]
    """The functions that the case calls: file and qualified name."""
    calls: int
    seconds: float
    """CPU time of the case, while its calls were recorded."""


def case(name: str, ask: Deed) -> Case:
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
def _made(deeds: Callable[[], Deeds]) -> tuple[Case, ...]:
    """Groups may share a corpus."""
    return tuple(sorted((case(name, ask) for name, ask in deeds()), key=lambda made: made.calls))


# -- the corpora -----------------------------------------------------------------------------------------


def zab_corpus() -> Deeds:
    for story in zab.STORIES.values():
        for bad in (False, True):
            name = f"{story.name}{', wrong' if bad else ''}"
            yield name, _objected(story, bad)
            yield f"{name}, heard by all", _told(story, bad)


def _objected(story: zab.Told, bad: bool) -> Deed:
    return lambda: zab.objection(story, bad)


def _told(story: zab.Told, bad: bool) -> Deed:
    return lambda: zab.said(story, bad)


def controller_corpus() -> Deeds:
    yield from settled.deeds()
    for story in controller.STORIES.values():
        for bad in (False, True):
            tale = story.tale(bad)
            history = History(tuple(tale.events), tuple(tale.changes))
            yield f"{story.name}{', wrong' if bad else ''}", _ruled(history, tuple(tale.facts))


def _ruled(history: History, facts: tuple[Fact, ...]) -> Deed:
    return lambda: controller.said(history, facts)


def _judged(history: History) -> Deed:
    """All of a verdict, also its words: whoever reads them must not be misled. And all that was read out of it."""

    def judged() -> object:
        case = Prepared.of(history)
        verdict = judge(history)
        calls = [(call, call.zxid, call.done, call.write, str(call)) for call in case.calls.all]
        read = calls, case.calls.unclaimed, case.calls.strays, list(case.replay.groups.values())
        order = getattr(verdict.linear, "order", ())
        told = verdict.valid, verdict.unknown, verdict.invariant, verdict.what, verdict.store.what, verdict.store.broken
        return str(verdict), told, order, read, _operations(case)

    return judged


def _operations(case: Prepared) -> object:
    """Nobody asks for them where a promise is broken; then they may contradict each other."""
    try:
        return operations(case)
    except linear.HistoryError as error:
        return str(error)


def _judged_if_it_can_be(history: History) -> Deed:
    """It may be such that nobody records it, and contradict itself."""
    judged = _judged(history)

    def tried() -> object:
        try:
            return judged()
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            return repr(error)

    return tried


def _watched(history: History, seed: int) -> Deed:
    """Every kind of watch on every node: what is due where a server jumped, and where a client comes back."""

    def watched() -> object:
        chance = Random(seed)
        replay = Prepared.of(history).replay
        said: list[object] = []
        for _ in range(12):
            old, new = sorted(chance.sample((0, *replay.order), 2))
            changes = replay.groups[new].changes
            for table in (frozenset({(kind, path)}) for kind in watching.KINDS for path in ("/", *PATHS)):
                said.append((watching.jumped(table, replay, old, new, ""), watching.again(table, old, replay, new, "")))
                said.append(watching.told(table, tuple(watching.steps_of(changes, replay.before(new))), new, ""))
        return said

    return watched


def _with_zeros(history: History) -> History:
    """An event that bears no zxid may say so in two ways."""
    events = (evolve(each, zxid=max(each.zxid, 0)) if isinstance(each, WatchFired) else each for each in history.events)
    return evolve(history, events=tuple(events))


def store_corpus(*, legals: int = 24, lies: int = 2, twists: int = 6) -> Deeds:
    honest = [legal(seed, steps=100) for seed in range(legals)]
    histories = [(name, story.history) for name, story in STORIES.items()]
    histories += [(f"legal {seed}", history) for seed, history in enumerate(honest)]
    for spoiler in SPOILERS:
        told = 0
        for seed, history in enumerate(honest):
            spoilt = spoiler(Random(seed), history)
            if spoilt is not None:
                histories.append((f"{spoiler.__name__} {seed}", spoilt))
                told += 1
            if told == lies:
                break
    histories += [(f"legal {seed}, jumps not seen", evolve(honest[seed], jumps=None)) for seed in range(legals // 3)]
    histories += [(f"{name}, zxids left out as 0", _with_zeros(story.history)) for name, story in STORIES.items()]
    for name, history in histories:
        yield name, _judged(history)
    for seed in range(legals // 4):
        yield f"watched {seed}", _watched(honest[seed], seed)
    for name, story in STORIES.items():
        for seed in range(twists):
            yield f"{name}, twisted {seed}", _judged_if_it_can_be(twisted(Random(f"{name}/{seed}"), story.history))


def linear_corpus(*, each: int = 60) -> Deeds:
    """Small histories of every model, true and spoilt, with zxids and without."""
    yield from verdicts.deeds()
    for kind, (model, draw) in KINDS.items():
        for seed in range(each):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 6), clients=chance.randint(1, 4), unknown=0.2)
            for _ in range(seed % 3):
                history = spoil(chance, history)
            if seed % 2:
                history = without_zxids(history)
            yield f"{kind} {seed}", _decided(history, algebra.always(model))
    for seed in range(each // 6):
        made = without_zxids(operations(Prepared.of(legal(seed, steps=100))))
        yield f"nodes {seed}", _decided(made, linear.Znodes.of)
        yield f"nodes {seed}, spoilt", _decided(spoil(Random(seed), made), linear.Znodes.of)


def _decided(history: linear.History, modelled: algebra.Modelled) -> Deed:
    return lambda: algebra.decided(history, modelled)


def partitions_corpus() -> Deeds:
    yield "an id", lambda: ident_of(TopicId("T1" + "0" * 20))
    yield from at_rest.deeds()
    yield from shares.deeds()
    yield from cleaning.deeds()
    for story in partitions.STORIES.values():
        for so in (False, True):
            yield f"{story.name}{'' if so else ', not'}", _onlooked(story, so)


def _onlooked(story: partitions.Told, so: bool) -> Deed:
    return lambda: story.said(so)


def records_corpus() -> Deeds:
    for name, history in histories():
        yield name, _summed_up(history)


def _summed_up(history: OfRecords) -> Deed:
    return lambda: summary(history)


CORPORA: Final[dict[str, Callable[[], Deeds]]] = {
    "zab": zab_corpus,
    "spec": zab_corpus,
    "oracle": oracle.deeds,
    "liveness": liveness.deeds,
    "store": store_corpus,
    "limits": limits.deeds,
    "linear": linear_corpus,
    "controller": controller_corpus,
    "partitions": partitions_corpus,
    "records": records_corpus,
    "transactions": transactions.deeds,
}
