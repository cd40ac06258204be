"""Does anybody notice? Each mutant is planted in turn, and seeds are run until a checker objects."""

from __future__ import annotations

import time

from attrs import frozen

from harness.checkers.service import NoCrash
from harness.draw import script_from_seed
from harness.faults import Script
from harness.mutants.edit import Mutant, planted
from harness.watchdog import watchdog
from harness.worlds import world


@frozen
class Verdict:
    """`promise` is the checker that noticed; None when none did within the budget."""

    mutant: str
    promise: str | None
    what: str
    runs: int
    core_seconds: float
    script: Script | None

    @property
    def killed(self) -> bool:
        return self.promise is not None


def hunt(mutant: Mutant, *, seconds: float = 60.0, runs_max: int = 1_000_000, base: int = 0) -> Verdict:
    """Run seeds from `base` on, with the ensemble sizes of the mutant in turn, until one fails."""
    runs = 0
    there = world(mutant.world)
    with planted(mutant.edits):
        began = time.process_time()
        while runs < runs_max and time.process_time() - began < seconds:
            seed = base + runs
            script = script_from_seed(seed, voters=mutant.voters[seed % len(mutant.voters)], machine=mutant.machine)
            runs += 1
            try:
                with watchdog():
                    outcome = there.run(script)
            except Exception as error:  # where the world stands for a driver, a bug may make it stumble
                return Verdict(mutant.name, NoCrash.promise, repr(error), runs, time.process_time() - began, script)
            if outcome.promise is not None:
                spent = time.process_time() - began
                return Verdict(mutant.name, outcome.promise, outcome.what, runs, spent, script)
        return Verdict(mutant.name, None, "", runs, time.process_time() - began, None)
