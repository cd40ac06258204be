"""Run the corpus of histories against mutated checkers.

A mutation is killed if a case gives another result than the unchanged checkers: a legal history is called illegal, an
illegal one legal, or illegal for another reason; or if a checker raises, or does not end.
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

from tests.checker_mutation.cases import TARGETS, Case, corpus
from tests.checker_mutation.equivalent import EQUIVALENT
from tests.checker_mutation.mutations import Mutation, applied, mutation_at, sites

STUCK_S: Final = 0.5
"""A case is stuck after this CPU time, plus `STUCK_TIMES` the time that it takes without a mutation."""
STUCK_TIMES: Final = 10


@frozen
class Result:
    mutation: Mutation
    killed_by: str
    """The name of a case, or an empty string if the mutation survived."""


@frozen
class Group:
    """The results of one group of checkers."""

    name: str
    results: tuple[Result, ...]
    seconds: float
    """CPU time, with the time to make the corpus."""

    @property
    def killed(self) -> int:
        return sum(bool(result.killed_by) for result in self.results)

    @property
    def survivors(self) -> list[Mutation]:
        """The mutations that no case killed, without the equivalent ones."""
        left = [result.mutation for result in self.results if not result.killed_by]
        return [mutation for mutation in left if mutation.key not in EQUIVALENT]

    @property
    def equivalent(self) -> int:
        return len(self.results) - self.killed - len(self.survivors)

    @property
    def score(self) -> float:
        """The share of killed mutations among those that are not equivalent."""
        not_equivalent = self.killed + len(self.survivors)
        return self.killed / not_equivalent if not_equivalent else 0.0


class Stuck(Exception):
    """A case does not end."""


def run(mutation: Mutation, cases: Sequence[Case]) -> Result:
    module = import_module(mutation.module)
    function = module.__file__ or "", mutation.function
    with applied(mutation, module):
        for each in cases:
            if function in each.uses and _differs(each):
                return Result(mutation, each.name)
    return Result(mutation, "")


def _differs(case: Case) -> bool:
    try:
        with _limited(STUCK_S + STUCK_TIMES * case.seconds):
            return case.ask() != case.expected
    except Exception:  # an exception of a checker ends the campaign, so a user notices it
        return True


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Stuck

    kept, collecting = signal.signal(signal.SIGVTALRM, stop), gc.isenabled()
    gc.disable()  # an exception that the signal raises inside a callback of the collector would be lost
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)
        if collecting:
            gc.enable()


def drawn(target: str, seed: int) -> Iterator[Mutation]:
    """Yield all mutations of a group of checkers, in an order that the seed decides."""
    found = [site for name in TARGETS[target] for site in sites(import_module(name))]
    Random(seed).shuffle(found)
    for site in found:
        mutation = mutation_at(site)
        if mutation is not None:
            yield mutation


def run_group(name: str, *, seed: int, seconds: float, report: Callable[[Result], None]) -> Group:
    """Run as many mutations of a group as fit into this CPU time."""
    began = time.process_time()
    results = []
    for result in run_all(drawn(name, seed), corpus(name), seconds=seconds):
        report(result)
        results.append(result)
    return Group(name, tuple(results), time.process_time() - began)


def run_all(mutations: Iterable[Mutation], cases: Sequence[Case], *, seconds: float) -> Iterator[Result]:
    end = time.process_time() + seconds
    for mutation in mutations:
        if time.process_time() > end:
            break
        yield run(mutation, cases)


def table(groups: Sequence[Group]) -> str:
    lines = ["| Checkers | Mutations | Killed | Equivalent | Score | Core-seconds |", "|---|---:|---:|---:|---:|---:|"]
    for group in groups:
        lines.append(
            f"| {group.name} | {len(group.results)} | {group.killed} | {group.equivalent} | {group.score:.1%}"
            f" | {group.seconds:.0f} |"
        )
    return "\n".join(lines) + "\n"
