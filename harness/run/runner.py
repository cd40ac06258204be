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
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from multiprocessing import connection
from typing import Any, Final, TypeVar

from harness.faults import Script
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.run.mix import ROUND, Choice, Kind, Mix
from harness.run.plan import Plan, world_for
from harness.run.tally import Tally, tally
from harness.watchdog import watchdog
from harness.worlds import Run

Item = TypeVar("Item")
Result = TypeVar("Result")
RUN_S: Final = 60.0
"""The most processor time of a run."""
COLLECTED: Final = 25
"""The number of runs after which a worker collects garbage."""


def with_bug(mutant: str | None) -> AbstractContextManager[None]:
    """Plant the mutant of this name inside the block; None plants nothing."""
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


def spread(
    do: Callable[[Item], Result], items: Iterable[Item], jobs: int = 1, ahead: int | None = None
) -> Generator[Result, None, None]:
    """Yield `do(item)` for each item, in the order of the items. At most `ahead` items are in progress.

    Ctrl-C terminates the workers during their work.
    """
    if jobs <= 1:
        for number, item in enumerate(items, 1):
            yield do(item)
            if number % COLLECTED == 0:
                gc.collect()
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _become_worker, (do,)) as pool:
        running: deque[Future[Result]] = deque()
        most = 2 * jobs if ahead is None else min(2 * jobs, ahead)
        try:
            for item in items:
                running.append(pool.submit(_work, item))
                if len(running) >= most:
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
    """Prepare a worker process: it ends on SIGTERM at once, and with its parent, however the parent ends."""
    global _do
    _do = do
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)  # also during a run: finished work is stored, and no process waits for the rest


_worked = 0


def _work(item: Any) -> Any:
    global _worked
    _worked += 1
    if _worked % COLLECTED == 0:
        gc.collect()
    return _do(item)


# -- a campaign ------------------------------------------------------------------------------------------


def campaign(
    mix: Mix | Plan,
    *,
    jobs: int = 1,
    stop_after: int = 0,
    seconds: float | None = None,
    seen: Callable[[Tally], object] = lambda _: None,
) -> Tally:
    """Run a plan, or a mix of kinds, until `stop_after` runs have failed. Start no run after `seconds`.

    `seen` is called after each run with the total so far. All kinds have the same mutant and the same number of runs.
    """
    mix = mix if isinstance(mix, Mix) else Mix([Kind(mix, 1.0)])
    plan = mix.kinds[0].plan
    until = None if seconds is None else time.monotonic() + seconds
    total = Tally()
    waiting: deque[Choice] = deque()
    for kind in mix.kinds:
        world_for(kind.plan.machine, kind.plan.world)  # loaded before processes are forked

    def choices() -> Iterator[Choice]:
        for choice in mix.choices(plan.runs):
            if until is not None and time.monotonic() >= until:
                return
            waiting.append(choice)
            yield choice

    with with_bug(plan.mutant), closing(spread(_run_choice, choices(), jobs, ahead=ROUND)) as results:
        for result in results:
            mix.add(waiting.popleft(), result)
            total += result
            seen(total)
            if stop_after and len(total.failures) >= stop_after:
                break
    mix.finish()
    return total


def _run_choice(choice: Choice) -> Tally:
    plan = choice.plan
    outcome, core_seconds = timed(world_for(plan.machine, plan.world).run, plan.script(choice.number))
    return tally(plan, choice.number, outcome, core_seconds)
