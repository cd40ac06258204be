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
from harness.history import History
from harness.mutants.bank.ensemble import legal
from harness.mutants.bank.spoil import SPOILERS
from harness.mutants.mechanical import Mistake, made, mistakes

STORE: Final = tuple(
    f"harness.checkers.store.{name}"
    for name in (
        "broken", "model", "replay", "calls", "case", "log", "order", "realtime", "image", "effects", "outcomes",
        "sessions", "sequences", "watching", "watches", "linearize", "judge", "promises",
    )
)  # fmt: skip
STUCK_S: Final = 5.0
"""Of processor time, for one history."""


@frozen
class Case:
    name: str
    history: History
    summary: object
    """What the checkers say, as they are."""


@frozen
class Result:
    mistake: Mistake
    noticed: str
    """The name of the history that told; empty if none did."""


class Stuck(Exception):
    """It does not come to an end."""


def summary(verdict: Verdict) -> object:
    """All of a verdict but its words."""
    broken = tuple((each.promise, each.session, each.call, each.zxid, each.at) for each in verdict.store.broken)
    match verdict.linear:
        case linear.Legal(order=order, by=by):
            return broken, by, order
        case linear.Illegal(core=core):
            return broken, "illegal", tuple(op.id for op in core)
        case linear.Undecided():
            return broken, "undecided"
        case None:
            return (broken,)


def bank(*, legals: int = 24, lies: int = 2, tales: Iterable[tuple[str, History]] = ()) -> list[Case]:
    """Histories that say much stand in front, so that most mistakes are noticed at once."""
    histories: list[tuple[str, History]] = list(tales)
    honest = [legal(seed, steps=100) for seed in range(legals)]
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
    return [Case(name, history, summary(judge(history))) for name, history in histories]


def hunt(mistake: Mistake, cases: Sequence[Case]) -> Result:
    module = import_module(mistake.module)
    with made(mistake, module):
        for case in cases:
            if _differs(case):
                return Result(mistake, case.name)
    return Result(mistake, "")


def _differs(case: Case) -> bool:
    try:
        with _limited(STUCK_S):
            return summary(judge(case.history)) != case.summary
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


def all_mistakes(modules: Sequence[str] = STORE) -> list[Mistake]:
    return [mistake for name in modules for mistake in mistakes(import_module(name))]


def hunt_all(
    found: Sequence[Mistake],
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
