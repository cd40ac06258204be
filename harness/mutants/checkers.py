"""Who checks the checkers: small mistakes are put into them, and the bank of histories must tell.

A mistake is noticed when the verdict on some history is another one: a legal history is called broken, a broken one
legal, or broken in another place; or when the checker falls over, or does not come to an end.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import Any, Final

from attrs import frozen

from harness.mutants.banks import TARGETS, Case, bank
from harness.mutants.equivalent import EQUIVALENT
from harness.mutants.mechanical import Mistake, made, mistake_at, sites

STUCK_S: Final = 0.5
"""Of processor time, for one case; and `STUCK_TIMES` as much as it takes without a mistake."""
STUCK_TIMES: Final = 10


@frozen
class Result:
    mistake: Mistake
    noticed: str
    """The name of the case that told; empty if none did."""


@frozen
class Group:
    """What became of the mistakes in one group of checkers."""

    name: str
    results: tuple[Result, ...]
    seconds: float
    """Of processor time, the bank included."""

    @property
    def noticed(self) -> int:
        return sum(bool(result.noticed) for result in self.results)

    @property
    def missed(self) -> list[Mistake]:
        """Without those that are known to change nothing."""
        left = [result.mistake for result in self.results if not result.noticed]
        return [mistake for mistake in left if mistake.key not in EQUIVALENT]

    @property
    def equivalent(self) -> int:
        return len(self.results) - self.noticed - len(self.missed)

    @property
    def share(self) -> float:
        could_be = self.noticed + len(self.missed)
        return self.noticed / could_be if could_be else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "group": self.name,
            "tried": len(self.results),
            "noticed": self.noticed,
            "equivalent": self.equivalent,
            "missed": [mistake.name for mistake in self.missed],
            "seconds": round(self.seconds, 1),
        }


class Stuck(Exception):
    """It does not come to an end."""


def hunt(mistake: Mistake, cases: Sequence[Case]) -> Result:
    module = import_module(mistake.module)
    function = module.__file__ or "", mistake.function
    with made(mistake, module):
        for each in cases:
            if function in each.uses and _differs(each):
                return Result(mistake, each.name)
    return Result(mistake, "")


def _differs(each: Case) -> bool:
    try:
        with _limited(STUCK_S + STUCK_TIMES * each.seconds):
            return each.ask() != each.said
    except Exception:  # it falls over, which nobody overlooks
        return True


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Stuck

    kept, collecting = signal.signal(signal.SIGVTALRM, stop), gc.isenabled()
    gc.disable()  # what is raised in the midst of a collection, where others may have asked to be called, is lost
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)
        if collecting:
            gc.enable()


def drawn(target: str, seed: int) -> Iterator[Mistake]:
    """All mistakes in these checkers, in an order that the seed decides."""
    found = [site for name in TARGETS[target] for site in sites(import_module(name))]
    Random(seed).shuffle(found)
    for site in found:
        mistake = mistake_at(site)
        if mistake is not None:
            yield mistake


def judged(name: str, *, seed: int = 0, seconds: float, heard: Callable[[Result], None] = lambda result: None) -> Group:
    """As many mistakes in the checkers of a group as fit into this much processor time."""
    began = time.process_time()
    results = hunt_all(drawn(name, seed), bank(name), seconds=seconds, heard=heard)
    return Group(name, tuple(results), time.process_time() - began)


def hunt_all(
    found: Iterable[Mistake],
    cases: Sequence[Case],
    *,
    seconds: float,
    heard: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    end = time.process_time() + seconds
    results = []
    for mistake in found:
        if time.process_time() > end:
            break
        result = hunt(mistake, cases)
        results.append(result)
        heard(result)
    return results


def table(groups: Sequence[Group]) -> str:
    lines = [
        "| Checkers | Mistakes | Noticed | Change nothing | Of what could be | Core-seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for group in groups:
        lines.append(
            f"| {group.name} | {len(group.results)} | {group.noticed} | {group.equivalent} | {group.share:.1%}"
            f" | {group.seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"
