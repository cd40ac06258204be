"""Compare how early the specification and the other checkers detect a bug, in the same run."""

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
class DetectionLatency:
    """The number of events after which the specification and the other checkers detect a bug; None: they do not."""

    mutant: str
    runs: int
    refinement: int | None = None
    invariants: int | None = None
    invariant: str | None = None
    """The invariant of the other checkers that was violated."""
    what: str = ""
    """The violation of the specification."""

    def line(self) -> str:
        if self.refinement is None and self.invariants is None:
            return f"{self.mutant:<34} not detected in {self.runs} runs"
        sooner = self.refinement is not None and (self.invariants is None or self.refinement < self.invariants)
        word = "earlier" if sooner else "as early" if self.refinement == self.invariants else "later or not"
        one, other = ("-" if events is None else events for events in (self.refinement, self.invariants))
        return f"{self.mutant:<34} {one:>8} {other:>8}  {word:<12}  {self.invariant or 'valid'}"


def detection_latency(mutant: Mutant, *, seconds: float, base: int = 0) -> DetectionLatency:
    """Measure in the first run in which any checker detects the bug."""
    with planted(mutant.edits):
        began = time.process_time()
        runs = 0
        while time.process_time() - began < seconds:
            script = script_from_seed(base + runs, voters=mutant.voters[runs % len(mutant.voters)])
            runs += 1
            with watchdog():
                if run(script).valid:
                    continue
            with watchdog():
                one = run(script, checkers=[Refinement])
            with watchdog():
                other = run(script, checkers=INVARIANTS)
            noticed = one.invariant == Refinement.invariant
            return DetectionLatency(
                mutant.name,
                runs,
                one.events if noticed else None,
                None if other.valid else other.events,
                other.invariant,
                one.what if noticed else "",
            )
    return DetectionLatency(mutant.name, runs)
