"""Run the steps in their order, and repeat them until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from attrs import frozen

from harness.faults import Script
from harness.outcome import Outcome
from harness.shrink import plainer
from harness.shrink.proof import Proof, ddmin, prove, take_out
from harness.shrink.trials import Broke, Moment, Stop, Trials, items_of, made_of, until

RUNS_MAX: Final = 400


@frozen
class Shrunk:
    script: Script
    runs_by_step: Mapping[str, int]
    proof: Proof
    stopped: Stop | None = None
    """Why the search ended early, so that a smaller script may fail, too; None if it was complete."""

    @property
    def runs(self) -> int:
        return sum(self.runs_by_step.values())


def same_invariant(
    run: Callable[[Script], Outcome], invariant: str | None, seen: Callable[[], None] = lambda: None
) -> Broke:
    """Return a test for the same failure: the same invariant is violated, whatever the message."""

    def broke(script: Script) -> Moment | None:
        seen()
        outcome = run(script)
        return Moment(outcome.at_ms) if outcome.invariant == invariant else None

    return broke


def shrink(
    script: Script,
    broke: Broke,
    *,
    at_ms: int | None = None,
    runs_max: int = RUNS_MAX,
    seconds_max: float = inf,
) -> Shrunk:
    """Return the smallest script that was found to violate the invariant of the given one.

    The search ends after `runs_max` runs, after `seconds_max` seconds, or at Ctrl-C. `at_ms` is the time at which the
    script violates the invariant. If it is given, the first run cuts all that comes later, however short the time is.
    """
    trials = Trials(broke, runs_max, seconds_max)
    if at_ms is not None:
        trials.know(script, Moment(at_ms))
    script = _cut(script, trials)
    trials.step = "calm"
    script = _ended(plainer.calm(script, trials), trials)
    while True:
        before = script
        trials.step = "delta"
        script = _ended(_delta(script, trials), trials)
        trials.step = "values"
        script = plainer.settled(plainer.plain(script, trials), trials)
        trials.step = "schedule"
        script = plainer.regular(script, trials)
        trials.step = "proof"
        script = take_out(_ended(script, trials), trials)
        if script == before or trials.over:
            break
    trials.step = "proof"
    proof = prove(script, trials)
    return Shrunk(script, dict(trials.runs), proof, trials.stopped)


def _delta(script: Script, trials: Trials) -> Script:
    return made_of(script, ddmin(items_of(script), lambda chosen: trials.fails(made_of(script, chosen))))


def _ended(script: Script, trials: Trials, *, late: bool = False) -> Script:
    """Cut the script at the moment at which it violated the invariant, if the shorter script still violates it."""
    at_ms = trials.broke(script)
    if at_ms is None or at_ms + 1 >= script.length_ms:
        return script
    shorter = until(script, at_ms)
    return shorter if trials.broke(shorter, late=late) is not None else script


def _cut(script: Script, trials: Trials) -> Script:
    """Cut the end of the script. If the violation occurs only after all faults, search for the cut by halves."""
    trials.step = "cut"
    shorter = _ended(script, trials, late=True)
    if shorter != script or trials.broke(script) == script.length_ms - 1:
        return shorter
    times = sorted(item.at for item in items_of(script))
    keep = len(times)
    step = keep // 2
    while step:
        candidate = until(script, times[keep - step - 1] if keep > step else 0)
        if keep >= step and trials.fails(candidate):
            script, keep = candidate, keep - step
        else:
            step //= 2
    return script
