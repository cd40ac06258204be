"""Hunt a mutant: plant it, run scripts until a checker detects it, and report the other checkers that detect it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import evolve, frozen

from harness.checkers import ALL
from harness.checkers.service import NoCrash
from harness.checkers.store import judge
from harness.faults import Script
from harness.mutants.edit import Mutant, planted
from harness.mutants.table import BY_NAME, IMPOSSIBLE
from harness.run.mix import mix_of
from harness.run.plan import Plan
from harness.run.runner import timed
from harness.run.tally import tally
from harness.scripts import describe, to_json
from harness.shrink import same_invariant, shrink
from harness.watchdog import SECONDS, watchdog
from harness.worlds import world
from harness.worlds.cores.world import run

OTHERS_MAX: Final = 4
DRIVERS_S: Final = 60.0
"""The most processor time of one run outside of the world cores. Runs with brokers take some seconds."""


@frozen
class Verdict:
    """The result of a hunt. `invariant` names the checker that detected the bug; None if none did within the budget."""

    mutant: str
    invariant: str | None
    what: str
    runs: int
    core_seconds: float
    script: Script | None
    others: tuple[str, ...] = ()
    """The checkers that detect the bug in the same run if those before them are left out, in the world cores."""
    shrunk: Script | None = None

    @property
    def killed(self) -> bool:
        return self.invariant is not None

    def as_json(self) -> dict[str, object]:
        mutant = BY_NAME[self.mutant]
        return {
            "mutant": self.mutant,
            "bug": mutant.bug,
            "world": mutant.world,
            "machine": mutant.machine,
            "invariant": self.invariant,
            "what": self.what,
            "runs": self.runs,
            "core_seconds": self.core_seconds,
            "others": list(self.others),
            "script": None if self.script is None else to_json(self.script),
            "shrunk": None if self.shrunk is None else to_json(self.shrunk),
        }


def hunt(mutant: Mutant, *, seconds: float = 60.0, runs_max: int = 1_000_000, base: int = 0) -> Verdict:
    """Run usual scripts and those of all profiles of the machine, mixed as by `fuzz`, until a checker fails.

    Seeds begin at `base`. A profile that leads to the bug's situation has as much time as the usual scripts. The order
    depends on no clock, so a loaded machine finds a bug in the same run.
    """
    plan = Plan(runs_max, base, mutant.voters, world=mutant.world, machine=mutant.machine)
    mix = mix_of(plan, (mutant.machine,), (mutant.world,), None, mutant.profile)
    run, limit = world(mutant.world).run, SECONDS if mutant.world == "cores" else DRIVERS_S
    with planted(mutant.edits):
        runs, began = 0, time.process_time()
        for choice in mix.choices(runs_max):
            if time.process_time() - began >= seconds:
                break
            runs += 1
            script = choice.plan.script(choice.number)
            try:
                outcome, took = timed(run, script, seconds=limit)
            except Exception as error:  # a bug may also break the simulator
                return Verdict(mutant.name, NoCrash.invariant, repr(error), runs, time.process_time() - began, script)
            if outcome.invariant is not None:
                spent = time.process_time() - began
                return Verdict(mutant.name, outcome.invariant, outcome.what, runs, spent, script)
            mix.add(choice, tally(choice.plan, choice.number, outcome, took))
        return Verdict(mutant.name, None, "", runs, time.process_time() - began, None)


def examined(verdict: Verdict, *, shrink_runs: int) -> Verdict:
    """Add the other checkers that detect the bug, and a shrunk script; with `shrink_runs` 0 do not shrink."""
    script, invariant = verdict.script, verdict.invariant
    if script is None or invariant is None:
        return verdict
    mutant = BY_NAME[verdict.mutant]
    with planted(mutant.edits):
        others = _others(script, invariant) if mutant.world == "cores" else []
        fails = same_invariant(world(mutant.world).run, invariant)
        shrunk = shrink(script, fails, runs_max=shrink_runs).script if shrink_runs else None
    return evolve(verdict, others=tuple(others), shrunk=shrunk)


def _others(script: Script, invariant: str) -> list[str]:
    """Return the checkers that fail if those before them are left out. Those of the store's history come last."""
    found = [invariant]
    left = list(ALL)
    outcome = None
    while len(found) <= OTHERS_MAX:
        fewer = [checker for checker in left if checker.invariant != found[-1]]
        if len(fewer) == len(left):
            break
        left = fewer
        try:
            with watchdog():
                outcome = run(script, checkers=left)
        except Exception:  # the bug may break the simulator if no checker ends the run before
            return found[1:]
        if outcome.invariant is None or outcome.invariant in found:
            break
        found.append(outcome.invariant)
    else:
        return found[1:]
    if script.machine == "store":
        history = (outcome or run(script)).history
        broken = judge(history).store.broken if history is not None else ()
        found += dict.fromkeys(each.invariant for each in broken if each.invariant not in found)
    return found[1 : OTHERS_MAX + 1]


# -- files -----------------------------------------------------------------------------------------------


def write(directory: Path, results: Sequence[Verdict]) -> None:
    """Write `mutants.json`, `mutants.md`, and the script as text for each bug that was detected."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "mutants.json").write_text(json.dumps([each.as_json() for each in results], indent=1) + "\n")
    (directory / "mutants.md").write_text(table(results))
    for each in results:
        script = each.shrunk or each.script
        if script is not None:
            (directory / f"{each.mutant}.txt").write_text(describe(script) + "\n")


def table(results: Sequence[Verdict]) -> str:
    lines = [
        "| Mutant | Bug | World, machine | Noticed by | Also by | Runs | Core-seconds |",
        "|---|---|---|---|---|---:|---:|",
    ]
    for each in results:
        mutant, noticed = BY_NAME[each.mutant], each.invariant or "**not noticed**"
        lines.append(
            f"| `{each.mutant}` | {mutant.bug} | {mutant.world}, {mutant.machine} | "
            f"{noticed} | {'; '.join(each.others)} | {each.runs} | {each.core_seconds:.1f} |"
        )
    lines += ["", "| Not to be planted | Why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in IMPOSSIBLE.items()]
    return "\n".join(lines) + "\n"
