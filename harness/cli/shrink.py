"""The command `shrink`."""

from __future__ import annotations

import datetime as dt
import json
from math import inf
from pathlib import Path
from typing import Final

from attrs import evolve

from harness.cli import common, options
from harness.cli.root import INVALID, VALID, command
from harness.faults import Script
from harness.outcome import Outcome
from harness.run.regressions import Regression, code_version, store
from harness.run.replay_line import replay_line
from harness.scripts import describe, dumps
from harness.shrink import Shrunk, Stop, same_invariant
from harness.shrink import shrink as smallest
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted


@command(
    "shrink",
    *options.SCRIPT,
    *options.PLACE,
    options.option("--runs", "The most scripts to run.", options.POSITIVE, 400),
    options.option("--seconds", "Stop after this time [default: never].", options.SECONDS),
    options.output("Write the smallest script there, as JSON."),
    options.keep("the smallest script"),
    options.DIAGRAM,
    options.trace(40),
    options.json_output(),
)
def shrink(arguments: Arguments) -> int:
    """Make a failing script as small as possible, and show that every fault that is left is needed.

    First whole faults and operations are removed, then values become plain and the schedule regular. At the end each
    item is removed alone, and faults in pairs, if the script still fails without them. Ctrl-C ends the search with the
    smallest script so far.
    """
    script = common.chosen(arguments)
    return common.with_mutant(arguments, lambda: _shrink_script(arguments, script))


def _shrink_script(arguments: Arguments, script: Script) -> int:
    there = common.chosen_world(arguments, script.machine)
    if arguments.diagram is not None:
        common.check_recorded(there)
    script = there.playable(script).script
    outcome = there.run(script)
    if outcome.invariant is None:
        print(common.verdict(outcome))
        return VALID if outcome.valid else INVALID
    with common.Progress(arguments.runs, "scripts tried") as progress:
        found = smallest(
            outcome.script,
            same_invariant(there.run, outcome.invariant, progress.step),
            at_ms=outcome.at_ms,
            runs_max=arguments.runs,
            seconds_max=inf if arguments.seconds is None else arguments.seconds,
        )
    last = there.run(found.script, trace=True)
    path: Path | None = arguments.output
    if path is not None:
        path.write_text(dumps(found.script))
    if arguments.keep is not None:
        path = keep_script(arguments.keep, evolve(outcome, script=found.script), there.name, arguments.mutant)
    if arguments.diagram is not None:
        common.draw(arguments.diagram, last, there.name, arguments.mutant)
    line = replay_line(found.script, world=there.name, mutant=arguments.mutant, file=path)
    if arguments.json:
        proof = {
            "needed": [type(item).__name__ for item in found.proof.needed],
            "unproven": [type(item).__name__ for item in found.proof.unproven],
            "pairs": found.proof.pairs,
        }
        more = {"runs": found.runs, "runs_by_step": dict(found.runs_by_step), "proof": proof, "rerun": line}
        more["stopped"] = None if found.stopped is None else found.stopped.value
        print(json.dumps({**common.outcome_as_json(last), **more}))
        return INVALID
    print(describe(found.script))
    print()
    if last.trace is not None and arguments.trace:
        print(last.trace.text(arguments.trace))
        print()
    print(common.verdict(last))
    if last.valid:
        print(f"this world is not deterministic: the first run violated {outcome.invariant}: {outcome.what}")
    print(in_words(script, found))
    print(line)
    return INVALID


def _size(script: Script) -> str:
    faults, ops = len(script.faults), len(script.ops)
    return f"{counted(faults, 'fault')} and {counted(ops, 'operation')}"


STOPPED: Final = {
    Stop.RUNS: "because no more runs were allowed",
    Stop.SECONDS: "because its time was over",
    Stop.INTERRUPT: "because it was interrupted",
}


def in_words(script: Script, found: Shrunk) -> str:
    """Describe how small the script became, the cost, and what is proven to be needed."""
    spent = ", ".join(f"{step} {runs}" for step, runs in found.runs_by_step.items())
    was, now = (_size(each) for each in (script, found.script))
    lines = [f"{counted(found.runs, 'run')} from {was} to {now} ({spent})"]
    proof = found.proof
    if proof.needed:
        pairs = f", and without any of {proof.pairs} pairs of faults" if proof.pairs else ""
        lines.append(f"without any single one of {len(proof.needed)} of them the failure does not occur{pairs}")
    if proof.unproven:
        lines.append(f"not proven to be needed: {len(proof.unproven)}")
    if found.stopped is not None:
        lines.append(f"shrinking stopped early, {STOPPED[found.stopped]}: a smaller script may fail, too")
    return "\n".join(lines)


def keep_script(folder: Path, outcome: Outcome, world: str, mutant: str | None) -> Path:
    assert outcome.invariant is not None
    today = dt.date.today().isoformat()
    return store(
        folder, Regression(outcome.invariant, outcome.script, mutant, world, today, code_version(), outcome.what)
    )
