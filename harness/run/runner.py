"""The runner: one run under a watchdog, and many runs in several processes.

Every campaign uses it: `fuzz`, stored campaigns, hunts for mutants, and campaigns against a machine of the user. The
results come in the order of the items, so no result depends on the number of processes or on their speed.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from multiprocessing import connection
from typing import Any, Final, TypeVar

from attrs import field, fields, frozen

from harness.faults import Script
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.run.plan import Plan
from harness.run.worlds import world_for
from harness.watchdog import watchdog
from harness.worlds import Run

Item = TypeVar("Item")
Result = TypeVar("Result")
RUN_S: Final = 60.0
"""The most processor time of a run."""
COLLECTED: Final = 25
"""The garbage collector sleeps during runs. It is woken after so many."""


def with_bug(mutant: str | None) -> AbstractContextManager[None]:
    """Plant the mutant of this name for the time of the block, if there is a name."""
    return nullcontext() if mutant is None else planted(BY_NAME[mutant].edits)


def timed(run: Run, script: Script, *, trace: bool = False, seconds: float = RUN_S) -> tuple[Outcome, float]:
    """Run a script under the watchdog; return its outcome and the processor time."""
    began = time.process_time()
    with watchdog(seconds):
        outcome = run(script, trace=trace)
    return outcome, time.process_time() - began


# -- processes -------------------------------------------------------------------------------------------

_do: Callable[[Any], Any]
"""The work of this worker process. It is inherited by fork, so it may be any function."""


def spread(do: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1) -> Generator[Result, None, None]:
    """Yield `do(item)` for each item, in the order of the items. Items are taken as late as possible.

    On Ctrl-C the workers are stopped in the midst of their work.
    """
    if jobs <= 1:
        for number, item in enumerate(items, 1):
            yield do(item)
            if number % COLLECTED == 0:
                gc.collect()
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _become_worker, (do,)) as pool:
        running: deque[Future[Result]] = deque()
        try:
            for item in items:
                running.append(pool.submit(_work, item))
                if len(running) >= 2 * jobs:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _become_worker(do: Callable[[Any], Any]) -> None:
    """End on SIGTERM like any process, not like the command; and end with the parent, however that one ends."""
    global _do
    _do = do
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)  # in the midst of a run: finished work is stored, and nothing waits for the rest


_worked = 0


def _work(item: Any) -> Any:
    global _worked
    _worked += 1
    if _worked % COLLECTED == 0:
        gc.collect()
    return _do(item)


# -- sums ------------------------------------------------------------------------------------------------


@frozen
class Failure:
    """A run that violated an invariant, by its number in the plan."""

    number: int
    script: Script
    promise: str
    what: str
    at_ms: int


@frozen
class Undecided:
    """A run that was given up, and its cost until then."""

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
        sums = {each.name: getattr(self, each.name) for each in fields(Tally)}
        for name, value in sums.items():
            more = getattr(other, name)
            match value:
                case dict():
                    sums[name] = {key: value.get(key, 0) + more.get(key, 0) for key in value | more}
                case frozenset():
                    sums[name] = value | more
                case _:
                    sums[name] = max(value, more) if name == "recovered_ms_max" else value + more
        return Tally(**sums)


def tally(number: int, outcome: Outcome, core_seconds: float) -> Tally:
    script = outcome.script
    return Tally(
        1,
        () if outcome.promise is None else (Failure(number, script, outcome.promise, outcome.what, outcome.at_ms),),
        outcome.events,
        outcome.simulated_ms,
        outcome.committed,
        outcome.acknowledged,
        outcome.elections,
        core_seconds,
        outcome.recovered_ms,
        dict(outcome.counts),
        (Undecided(number, script.seed, script.voters, outcome.what),) if outcome.undecided else (),
        outcome.overlaps,
    )


def grouped(failures: Iterable[Item], violated: Callable[[Item], Hashable]) -> list[tuple[Item, int]]:
    """Group failures by what they violated: the first failure of each group, and the size of the group."""
    groups: dict[Hashable, list[Item]] = {}
    for each in failures:
        groups.setdefault(violated(each), []).append(each)
    return [(group[0], len(group)) for group in groups.values()]


# -- a campaign ------------------------------------------------------------------------------------------


def campaign(
    plan: Plan,
    *,
    jobs: int = 1,
    stop_after: int = 0,
    seconds: float | None = None,
    seen: Callable[[Tally], object] = lambda _: None,
) -> Tally:
    """Run the plan: at most until `stop_after` runs have failed, and start no run after `seconds`.

    `seen` is called with the sum so far after each run.
    """
    until = None if seconds is None else time.monotonic() + seconds
    total, run = Tally(), world_for(plan.machine, plan.world).run

    def numbers() -> Iterator[int]:
        for number in range(plan.runs):
            if until is not None and time.monotonic() >= until:
                return
            yield number

    with with_bug(plan.mutant), closing(spread(partial(_run_number, run, plan), numbers(), jobs)) as results:
        for one in results:
            total += one
            seen(total)
            if stop_after and len(total.failures) >= stop_after:
                break
    return total


def _run_number(run: Run, plan: Plan, number: int) -> Tally:
    outcome, core_seconds = timed(run, plan.script(number))
    return tally(number, outcome, core_seconds)
