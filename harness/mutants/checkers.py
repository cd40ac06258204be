"""Who checks the checkers: small mistakes are put into them, and the bank of histories must tell.

A mistake is noticed when the verdict on some history is another one: a legal history is called broken, a broken one
legal, or broken in another place; or when the checker falls over, or does not come to an end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import Any, Final

from attrs import evolve, frozen

from harness.checkers import linear
from harness.checkers.store import Verdict, judge
from harness.checkers.store.case import Case as Prepared
from harness.checkers.store.linearize import operations
from harness.history import History
from harness.mutants.bank.ensemble import legal
from harness.mutants.bank.operations import KINDS, spoil, true_history, without_zxids
from harness.mutants.bank.spoil import SPOILERS
from harness.mutants.bank.stories import STORIES
from harness.mutants.mechanical import Mistake, made, mistake_at, sites

STORE: Final = tuple(
    f"harness.checkers.store.{name}"
    for name in (
        "broken", "model", "replay", "calls", "case", "log", "order", "realtime", "image", "effects", "outcomes",
        "sessions", "sequences", "watching", "watches", "linearize", "judge", "promises",
    )
)  # fmt: skip
LINEAR: Final = tuple(
    f"harness.checkers.linear.{name}" for name in ("certificate", "decide", "core", "models", "zones", "wgl", "znodes")
)
TARGETS: Final = {"store": STORE, "linear": LINEAR}
STUCK_S: Final = 5.0
"""Of processor time, for one history."""


@frozen
class Case:
    name: str
    judge: Callable[[], object]
    said: object
    """What the checkers say, as they are."""


def case(name: str, judge: Callable[[], object]) -> Case:
    return Case(name, judge, judge())


@frozen
class Result:
    mistake: Mistake
    noticed: str
    """The name of the history that told; empty if none did."""


class Stuck(Exception):
    """It does not come to an end."""


def summary(verdict: Verdict) -> object:
    """All of a verdict, also its words: whoever reads them must not be misled."""
    broken = verdict.held, verdict.undecided, verdict.promise, verdict.what, verdict.store.broken
    return broken, getattr(verdict.linear, "order", ())


def _judged(history: History) -> Callable[[], object]:
    return lambda: summary(judge(history))


def store_bank(*, legals: int = 24, lies: int = 2) -> list[Case]:
    """Histories that say much stand in front, so that most mistakes are noticed at once."""
    honest = [legal(seed, steps=100) for seed in range(legals)]
    histories = [(f"legal {seed}", history) for seed, history in enumerate(honest)]
    histories += [(name, story.history) for name, story in STORIES.items()]
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
    return [case(name, _judged(history)) for name, history in histories]


def linear_bank(*, each: int = 60) -> list[Case]:
    """Small histories of every model, true and spoilt, with zxids and without."""
    cases = []
    for kind, (model, draw) in KINDS.items():
        for seed in range(each):
            chance = Random(seed)
            history = true_history(chance, model, draw, chance.randint(3, 6), clients=chance.randint(1, 4), unknown=0.2)
            for _ in range(seed % 3):
                history = spoil(chance, history)
            if seed % 2:
                history = without_zxids(history)
            cases.append(case(f"{kind} {seed}", _decided(history, model)))
    for seed in range(each // 6):
        made = without_zxids(operations(Prepared.of(legal(seed, steps=100))))
        model = linear.Znodes.of(made.operations)
        cases.append(case(f"nodes {seed}", _decided(made, model)))
        cases.append(case(f"nodes {seed}, spoilt", _decided(spoil(Random(seed), made), model)))
    return cases


def _decided(history: linear.History, model: linear.Model) -> Callable[[], object]:
    def decided() -> object:
        verdict = linear.check(history, model, 20_000)
        return str(verdict), getattr(verdict, "order", ())

    return decided


BANKS: Final[dict[str, Callable[[], list[Case]]]] = {"store": store_bank, "linear": linear_bank}


def hunt(mistake: Mistake, cases: Sequence[Case]) -> Result:
    module = import_module(mistake.module)
    with made(mistake, module):
        for each in cases:
            if _differs(each):
                return Result(mistake, each.name)
    return Result(mistake, "")


def _differs(each: Case) -> bool:
    try:
        with _limited(STUCK_S):
            return each.judge() != each.said
    except Exception:  # it falls over, which nobody overlooks
        return True


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Stuck

    kept = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)


def drawn(target: str, seed: int) -> Iterator[Mistake]:
    """All mistakes in these checkers, in an order that the seed decides."""
    found = [site for name in TARGETS[target] for site in sites(import_module(name))]
    Random(seed).shuffle(found)
    for site in found:
        mistake = mistake_at(site)
        if mistake is not None:
            yield mistake


def hunt_all(
    found: Iterable[Mistake],
    cases: Sequence[Case],
    *,
    seconds: float,
    heard: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """As many as fit into this much processor time."""
    end = time.process_time() + seconds
    results = []
    for mistake in found:
        if time.process_time() > end:
            break
        result = hunt(mistake, cases)
        results.append(result)
        heard(result)
    return results
