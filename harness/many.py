"""Many runs, on as many cores as wanted. What a campaign finds depends on its seeds alone, not on who ran them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from multiprocessing import connection
from multiprocessing.context import BaseContext
from typing import Final, TypeVar

from attrs import field, frozen

from harness.faults import MACHINES, Script
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.profiles import drawn
from harness.watchdog import watchdog
from harness.worlds import world_for

Failed = TypeVar("Failed")
CHUNK: Final = 25
"""So many runs travel to another process at a time."""


@frozen
class Plan:
    """Which scripts to run: seeds from `base` on, each with the next of `voters` as its number of voters."""

    runs: int
    base: int = 0
    voters: tuple[int, ...] = (3, 5)
    observers: int | None = None
    faults: int = 20
    ops: int = 100
    length_ms: int = 3_000
    world: str = "cores"
    machine: str = MACHINES[0]
    mutant: str | None = None
    """With this bug put back."""
    together: int = 1
    profile: str = ""
    """Scripts are drawn as this one of `harness.profiles` draws them, of a size that it decides itself; or `all`."""

    def rerun(self, seed: int, voters: int) -> str:
        """The line that repeats one run of it."""
        usual = Plan(1)
        words = [f"zab-harness replay --seed {seed} --servers {voters}"]
        for name in ("world", "observers", "faults", "ops", "length_ms", "machine", "mutant", "together", "profile"):
            if getattr(self, name) != getattr(usual, name):
                words.append(f"--{name.replace('_', '-')} {shlex.quote(str(getattr(self, name)))}")
        return " ".join(words)

    def script(self, number: int) -> Script:
        return drawn(
            self.profile,
            seed := self.base + number,
            voters=self.voters[seed % len(self.voters)],
            observers=self.observers,
            faults=self.faults,
            ops=self.ops,
            length_ms=self.length_ms,
            machine=self.machine,
            together=self.together,
        )


@frozen
class Failure:
    """A run that broke a promise, by its number in the plan."""

    number: int
    script: Script
    promise: str
    what: str
    at_ms: int


@frozen
class Undecided:
    """A run that was given up, and what had been spent on it."""

    number: int
    seed: int
    voters: int
    what: str


@frozen
class Tally:
    """The sums over several runs."""

    runs: int = 0
    failures: tuple[Failure, ...] = ()
    events: int = 0
    simulated_ms: int = 0
    committed: int = 0
    acknowledged: int = 0
    epochs: int = 0
    core_seconds: float = 0.0
    recovered_ms_max: int = 0
    counts: dict[str, int] = field(factory=dict)
    undecided: tuple[Undecided, ...] = ()
    overlaps: frozenset[tuple[str, str]] = frozenset()

    def __add__(self, other: Tally) -> Tally:
        counts = dict(self.counts)
        for name, number in other.counts.items():
            counts[name] = counts.get(name, 0) + number
        return Tally(
            self.runs + other.runs,
            tuple(sorted((*self.failures, *other.failures), key=lambda failure: failure.number)),
            self.events + other.events,
            self.simulated_ms + other.simulated_ms,
            self.committed + other.committed,
            self.acknowledged + other.acknowledged,
            self.epochs + other.epochs,
            self.core_seconds + other.core_seconds,
            max(self.recovered_ms_max, other.recovered_ms_max),
            counts,
            tuple(sorted((*self.undecided, *other.undecided), key=lambda each: each.number)),
            self.overlaps | other.overlaps,
        )


def grouped(failures: Iterable[Failed], violated: Callable[[Failed], Hashable]) -> list[tuple[Failed, int]]:
    """Group failures by what they violated: the first failure of each group, and the size of the group."""
    groups: dict[Hashable, list[Failed]] = {}
    for each in failures:
        groups.setdefault(violated(each), []).append(each)
    return [(group[0], len(group)) for group in groups.values()]


def tally(number: int, outcome: Outcome, core_seconds: float) -> Tally:
    failures: tuple[Failure, ...] = ()
    if outcome.promise is not None:
        failures = (Failure(number, outcome.script, outcome.promise, outcome.what, outcome.at_ms),)
    return Tally(
        1,
        failures,
        outcome.events,
        outcome.simulated_ms,
        outcome.committed,
        outcome.acknowledged,
        outcome.elections,
        core_seconds,
        outcome.recovered_ms,
        dict(outcome.counts),
        (Undecided(number, outcome.script.seed, outcome.script.voters, outcome.what),) if outcome.undecided else (),
        outcome.overlaps,
    )


def run_some(plan: Plan, numbers: Sequence[int], stop_after: int = 0, until: float | None = None) -> Tally:
    """With `stop_after`, no further than to so many failures; with `until`, a time, none is begun behind that."""
    total = Tally()
    with closing(_one_by_one(plan, numbers, stop_after, until)) as done:
        for each in done:
            total += each
    return total


def _one_by_one(
    plan: Plan, numbers: Sequence[int], stop_after: int, until: float | None
) -> Generator[Tally, None, None]:
    where, failed = world_for(plan.machine, plan.world), 0
    try:
        with planted(() if plan.mutant is None else BY_NAME[plan.mutant].edits):
            for number in numbers:
                if until is not None and time.monotonic() >= until:
                    break
                began = time.process_time()
                with watchdog(60):
                    outcome = where.run(plan.script(number))
                yield tally(number, outcome, time.process_time() - began)
                failed += outcome.promise is not None
                if stop_after and failed >= stop_after:
                    break
    finally:
        gc.collect()  # the collector slept during the runs


def campaign(
    plan: Plan,
    *,
    jobs: int = 1,
    stop_after: int = 0,
    seconds: float | None = None,
    seen: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """All runs of the plan; with `stop_after`, no more are begun when so many have failed. What several processes
    have begun by then is counted, too. With `seconds`, none is begun when so many have gone by.

    `seen` is called with the sum so far whenever some runs are done.
    """
    chunks = [range(start, min(start + CHUNK, plan.runs)) for start in range(0, plan.runs, CHUNK)]
    total = Tally()
    until = None if seconds is None else time.monotonic() + seconds
    with closing(_spread(plan, chunks, jobs, stop_after, until)) as results:
        for done in results:
            total += done
            seen(total)
            if stop_after and len(total.failures) >= stop_after:
                break
    return total


@contextmanager
def workers(jobs: int, context: BaseContext | None = None) -> Iterator[ProcessPoolExecutor]:
    """A worker that is stopped does not wait for the runs under way."""
    with ProcessPoolExecutor(jobs, context, initializer=_as_usual) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _as_usual() -> None:
    """A worker that is told to end, ends: the command's own way to do that is not for it. Nor does it outlive whoever
    wanted its results, however that one ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)  # in the midst of a run: what was finished is stored, and nobody waits for the rest


def _spread(
    plan: Plan, chunks: Sequence[range], jobs: int, stop_after: int, until: float | None
) -> Generator[Tally, None, None]:
    if jobs <= 1:
        failed = 0
        for chunk in chunks:
            with closing(_one_by_one(plan, chunk, stop_after and stop_after - failed, until)) as done_here:
                for some in done_here:
                    failed += len(some.failures)
                    yield some
            if until is not None and time.monotonic() >= until:
                return
        return
    with workers(jobs) as pool:
        waiting = list(reversed(chunks))
        running: set[Future[Tally]] = set()
        try:
            while waiting or running:
                if until is not None and time.monotonic() >= until:
                    waiting.clear()
                while waiting and len(running) < 2 * jobs:
                    running.add(pool.submit(run_some, plan, waiting.pop(), stop_after, until))
                if not running:
                    break
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()
