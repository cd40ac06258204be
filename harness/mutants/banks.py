"""Which checkers are checked together, and the bank of histories that must tell when one of them is wrong.

A case is something that checkers are asked, with what they say to it as they are. Which functions that takes is
written down beside it, so a mistake is held only against the cases that come by; the cheapest stand in front.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from harness.checkers import linear
from harness.checkers.controller.facts import Fact
from harness.checkers.store import Verdict, judge
from harness.checkers.store.case import Case as Prepared
from harness.checkers.store.linearize import operations
from harness.history import History
from harness.mutants.bank import controller, oracle, zab
from harness.mutants.bank.controller import settled
from harness.mutants.bank.ensemble import legal
from harness.mutants.bank.operations import KINDS, spoil, true_history, without_zxids
from harness.mutants.bank.spoil import SPOILERS
from harness.mutants.bank.stories import STORIES

Deed: TypeAlias = Callable[[], object]
Deeds: TypeAlias = Iterator[tuple[str, Deed]]


def _named(package: str, names: str) -> tuple[str, ...]:
    return tuple(f"harness.{package}.{name}" for name in names.split())


TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "zab": _named("checkers", "leadership history durability delivery primary_order recovery service ghost judge"),
    "spec": (*_named("checkers", "refinement"), *_named("spec", "actions state")),
    "oracle": ("harness.oracle", "harness.availability"),
    "store": _named(
        "checkers.store",
        "broken model replay calls case log order realtime image effects outcomes sessions sequences watching watches"
        " linearize judge promises",
    ),
    "linear": _named("checkers.linear", "certificate decide core models zones wgl znodes"),
    "controller": (
        *_named("checkers.controller", "case epochs fenced leaders versions assignments obedience settled"),
        "harness.checkers.controller",
    ),
}
"""By the name of the group: its modules."""


@frozen
class Case:
    name: str
    ask: Deed
    said: object
    """What the checkers say, as they are."""
    uses: frozenset[tuple[str, str]]
    """The functions that it takes: file, and qualified name."""
    calls: int
    seconds: float


def case(name: str, ask: Deed) -> Case:
    began = time.process_time()
    said = ask()
    spent = time.process_time() - began
    codes: dict[int, CodeType] = {}
    calls = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        codes[id(frame.f_code)] = frame.f_code

    kept = sys.gettrace()
    sys.settrace(called)
    try:
        ask()
    finally:
        sys.settrace(kept)
    uses = frozenset((code.co_filename, code.co_qualname.partition(".<locals>")[0]) for code in codes.values())
    return Case(name, ask, said, uses, calls, spent)


def bank(group: str) -> list[Case]:
    return sorted((case(name, ask) for name, ask in BANKS[group]()), key=lambda made: made.calls)


# -- the banks -----------------------------------------------------------------------------------------


def zab_bank() -> Deeds:
    for story in zab.STORIES.values():
        for bad in (False, True):
            name = f"{story.name}{', wrong' if bad else ''}"
            yield name, _objected(story, bad)
            yield f"{name}, heard by all", _told(story, bad)


def _objected(story: zab.Told, bad: bool) -> Deed:
    return lambda: zab.objection(story, bad)


def _told(story: zab.Told, bad: bool) -> Deed:
    return lambda: zab.said(story, bad)


def controller_bank() -> Deeds:
    yield from settled.deeds()
    for story in controller.STORIES.values():
        for bad in (False, True):
            tale = story.tale(bad)
            history = History(tuple(tale.events), tuple(tale.changes))
            yield f"{story.name}{', wrong' if bad else ''}", _ruled(history, tuple(tale.facts))


def _ruled(history: History, facts: tuple[Fact, ...]) -> Deed:
    return lambda: controller.said(history, facts)


def summary(verdict: Verdict) -> object:
    """All of a verdict, also its words: whoever reads them must not be misled."""
    broken = verdict.held, verdict.undecided, verdict.promise, verdict.what, verdict.store.broken
    return broken, getattr(verdict.linear, "order", ())


def _judged(history: History) -> Deed:
    return lambda: summary(judge(history))


def store_bank(*, legals: int = 24, lies: int = 2) -> Deeds:
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
    for name, history in histories:
        yield name, _judged(history)


def linear_bank(*, each: int = 60) -> Deeds:
    """Small histories of every model, true and spoilt, with zxids and without."""
    for kind, (model, draw) in KINDS.items():
        for seed in range(each):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 6), clients=chance.randint(1, 4), unknown=0.2)
            for _ in range(seed % 3):
                history = spoil(chance, history)
            if seed % 2:
                history = without_zxids(history)
            yield f"{kind} {seed}", _decided(history, _always(model))
    for seed in range(each // 6):
        made = without_zxids(operations(Prepared.of(legal(seed, steps=100))))
        yield f"nodes {seed}", _decided(made, linear.Znodes.of)
        yield f"nodes {seed}, spoilt", _decided(spoil(Random(seed), made), linear.Znodes.of)


def _always(model: linear.Model) -> Callable[[Iterable[linear.Operation]], linear.Model]:
    return lambda operations: model


def _decided(history: linear.History, modelled: Callable[[Iterable[linear.Operation]], linear.Model]) -> Deed:
    def decided() -> object:
        verdict = linear.check(history, modelled(history.operations), 20_000)
        return verdict, str(verdict)

    return decided


BANKS: Final[dict[str, Callable[[], Deeds]]] = {
    "zab": zab_bank,
    "spec": zab_bank,
    "oracle": oracle.deeds,
    "store": store_bank,
    "linear": linear_bank,
    "controller": controller_bank,
}
