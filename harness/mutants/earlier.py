"""Does the specification notice a bug before a promise is broken? The same run, judged by either alone."""

from __future__ import annotations

import time

from attrs import frozen

from harness.checkers import ALL, Refinement
from harness.draw import script_from_seed
from harness.mutants.edit import Mutant, planted
from harness.watchdog import watchdog
from harness.worlds.cores.world import run

INVARIANTS = tuple(checker for checker in ALL if checker is not Refinement)


@frozen
class Earlier:
    """After how many events each objected; None where it did not before the run was over."""

    mutant: str
    runs: int
    refinement: int | None
    invariants: int | None
    promise: str | None
    """Which of the others objected."""
    what: str
    """What the specification had to say."""

    def line(self) -> str:
        if self.refinement is None and self.invariants is None:
            return f"{self.mutant:<34} nothing in {self.runs} runs"
        sooner = self.refinement is not None and (self.invariants is None or self.refinement < self.invariants)
        word = "earlier" if sooner else "as early" if self.refinement == self.invariants else "later or not"
        numbers = f"{_number(self.refinement):>8} {_number(self.invariants):>8}"
        return f"{self.mutant:<34} {numbers}  {word:<12}  {self.promise or 'held'}"


def _number(events: int | None) -> str:
    return "-" if events is None else str(events)


def earlier(mutant: Mutant, *, seconds: float, base: int = 0) -> Earlier:
    """In the first run that anybody objects to."""
    with planted(mutant.edits):
        began = time.process_time()
        runs = 0
        while time.process_time() - began < seconds:
            script = script_from_seed(base + runs, voters=mutant.voters[runs % len(mutant.voters)])
            runs += 1
            with watchdog():
                if run(script).held:
                    continue
            with watchdog():
                one = run(script, checkers=[Refinement])
            with watchdog():
                other = run(script, checkers=INVARIANTS)
            noticed = one.promise == Refinement.promise
            return Earlier(
                mutant.name,
                runs,
                one.events if noticed else None,
                None if other.held else other.events,
                other.promise,
                one.what if noticed else "",
            )
    return Earlier(mutant.name, runs, None, None, None, "")
