"""What is told of a hunt: who noticed, who else would have, after how long, and the smallest script that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from harness.checkers import ALL
from harness.checkers.store import judge
from harness.faults import Script
from harness.mutants.campaign import Verdict
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME, IMPOSSIBLE
from harness.scripts import describe, to_json
from harness.shrink import same_promise, shrink
from harness.watchdog import watchdog
from harness.worlds import world
from harness.worlds.cores.world import run

OTHERS_MAX: Final = 4


@frozen
class Told:
    """A verdict, and what was found out about its script afterwards."""

    verdict: Verdict
    others: tuple[str, ...] = ()
    """In the world of cores: promises whose checkers notice when the ones before them do not look."""
    shrunk: Script | None = None

    def as_json(self) -> dict[str, object]:
        verdict = self.verdict
        bug = BY_NAME[verdict.mutant]
        return {
            "mutant": verdict.mutant,
            "bug": bug.bug,
            "world": bug.world,
            "machine": bug.machine,
            "promise": verdict.promise,
            "what": verdict.what,
            "runs": verdict.runs,
            "core_seconds": verdict.core_seconds,
            "others": list(self.others),
            "script": None if verdict.script is None else to_json(verdict.script),
            "shrunk": None if self.shrunk is None else to_json(self.shrunk),
        }


def told(verdict: Verdict, *, shrink_runs: int) -> Told:
    """With the bug put back once more. 0: the script is not made smaller."""
    script, promise = verdict.script, verdict.promise
    if script is None or promise is None:
        return Told(verdict)
    mutant = BY_NAME[verdict.mutant]
    there = world(mutant.world)
    with planted(mutant.edits):
        others = tuple(_others(script, promise)) if mutant.world == "cores" else ()
        shrunk = shrink(script, same_promise(there.run, promise), runs_max=shrink_runs).script if shrink_runs else None
    return Told(verdict, others, shrunk)


def _others(script: Script, promise: str) -> Iterable[str]:
    """One checker after the other closes its eyes. Who sees no harm in the run may see it in what clients saw."""
    found = [promise]
    left = list(ALL)
    outcome = None
    while len(found) <= OTHERS_MAX:
        fewer = [checker for checker in left if checker.promise != found[-1]]
        if len(fewer) == len(left):
            break
        left = fewer
        try:
            with watchdog():
                outcome = run(script, checkers=left)
        except Exception:  # with its eyes closed the world stumbles over what the bug has made
            return found[1:]
        if outcome.promise is None or outcome.promise in found:
            break
        found.append(outcome.promise)
    else:
        return found[1:]
    if script.machine == "store":
        history = (outcome or run(script)).history
        broken = judge(history).store.broken if history is not None else ()
        found += dict.fromkeys(each.promise for each in broken if each.promise not in found)
    return found[1 : OTHERS_MAX + 1]


# -- as files ------------------------------------------------------------------------------------------


def write(directory: Path, results: Sequence[Told]) -> None:
    """`mutants.json`, `mutants.md`, and a script in words for each that was noticed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "mutants.json").write_text(json.dumps([each.as_json() for each in results], indent=1) + "\n")
    (directory / "mutants.md").write_text(table(results))
    for each in results:
        script = each.shrunk or each.verdict.script
        if script is not None:
            (directory / f"{each.verdict.mutant}.txt").write_text(describe(script) + "\n")


def table(results: Sequence[Told]) -> str:
    lines = [
        "| Mutant | Bug | World, machine | Noticed by | Also by | Runs | Core-seconds |",
        "|---|---|---|---|---|---:|---:|",
    ]
    for each in results:
        verdict, bug = each.verdict, BY_NAME[each.verdict.mutant]
        noticed = verdict.promise or "**not noticed**"
        lines.append(
            f"| `{verdict.mutant}` | {bug.bug} | {bug.world}, {bug.machine} | {noticed} | {'; '.join(each.others)}"
            f" | {verdict.runs} | {verdict.core_seconds:.1f} |"
        )
    lines += ["", "| Not to be planted | Why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in IMPOSSIBLE.items()]
    return "\n".join(lines) + "\n"
