"""Plant each mutant in turn, and run seeds until a checker objects."""

from __future__ import annotations

import time
from typing import Final

from attrs import frozen

from harness.checkers.service import NoCrash
from harness.draw import script_from_seed
from harness.faults import Script
from harness.mutants.edit import Mutant, planted
from harness.mutants.table import PROFILES
from harness.profiles import BY_NAME
from harness.watchdog import SECONDS, watchdog
from harness.worlds import world


@frozen
class Verdict:
    """`promise` names the checker that noticed the bug; None if none did within the budget."""

    mutant: str
    promise: str | None
    what: str
    runs: int
    core_seconds: float
    script: Script | None

    @property
    def killed(self) -> bool:
        return self.promise is not None


DRIVERS_S: Final = 60.0
"""The processor time of one run of whole drivers. Those of brokers take some seconds."""


def hunt(mutant: Mutant, *, seconds: float = 60.0, runs_max: int = 1_000_000, base: int = 0) -> Verdict:
    """Run seeds from `base` on, with the ensemble sizes of the mutant in turn, until one fails.

    If a profile leads to the bug's situation, each seed gives a usual script and one of the profile. The order depends
    on no clock, so a loaded machine finds a bug in the same run.
    """
    profile = PROFILES.get(mutant.name)
    generators = (script_from_seed,) if profile is None else (script_from_seed, BY_NAME[profile].script)
    with planted(mutant.edits):
        began, runs = time.process_time(), 0
        while runs < runs_max and time.process_time() - began < seconds:
            number, way = divmod(runs, len(generators))
            seed, generate = base + number, generators[way]
            script = generate(seed, voters=mutant.voters[seed % len(mutant.voters)], machine=mutant.machine)
            runs += 1
            promise, what = _broken(mutant, script)
            if promise is not None:
                return Verdict(mutant.name, promise, what, runs, time.process_time() - began, script)
        return Verdict(mutant.name, None, "", runs, time.process_time() - began, None)


def _broken(mutant: Mutant, script: Script) -> tuple[str | None, str]:
    try:
        with watchdog(SECONDS if mutant.world == "cores" else DRIVERS_S):
            outcome = world(mutant.world).run(script)
    except Exception as error:  # a bug may also break the world, which stands in for a driver
        return NoCrash.promise, repr(error)
    return outcome.promise, outcome.what
