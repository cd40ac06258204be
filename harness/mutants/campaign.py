"""Does anybody notice? Each mutant is planted in turn, and seeds are run until a checker objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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


DRIVERS_S: Final = 60.0
"""Of processor time, for a run of whole drivers: those of brokers take some seconds."""
USUAL_SHARE: Final = 0.25
"""Of its time, before a hunt turns from the usual scripts to the profile that leads to the bug's situation."""


def hunt(mutant: Mutant, *, seconds: float = 60.0, runs_max: int = 1_000_000, base: int = 0) -> Verdict:
    """Run seeds from `base` on, with the ensemble sizes of the mutant in turn, until one fails."""
    with planted(mutant.edits):
        began, runs = time.process_time(), 0
        for draw, until in _ways(mutant, seconds):
            while runs < runs_max and time.process_time() - began < until:
                seed = base + runs
                script = draw(seed, voters=mutant.voters[seed % len(mutant.voters)], machine=mutant.machine)
                runs += 1
                promise, what = _broken(mutant, script)
                if promise is not None:
                    return Verdict(mutant.name, promise, what, runs, time.process_time() - began, script)
        return Verdict(mutant.name, None, "", runs, time.process_time() - began, None)


def _ways(mutant: Mutant, seconds: float) -> Iterator[tuple[Callable[..., Script], float]]:
    """How scripts are drawn, and until when: as usual first."""
    profile = PROFILES.get(mutant.name)
    yield script_from_seed, seconds if profile is None else seconds * USUAL_SHARE
    if profile is not None:
        yield BY_NAME[profile].script, seconds


def _broken(mutant: Mutant, script: Script) -> tuple[str | None, str]:
    try:
        with watchdog(SECONDS if mutant.world == "cores" else DRIVERS_S):
            outcome = world(mutant.world).run(script)
    except Exception as error:  # where the world stands for a driver, a bug may make it stumble
        return NoCrash.promise, repr(error)
    return outcome.promise, outcome.what
