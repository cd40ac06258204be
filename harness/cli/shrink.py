"""Make a failing script as small as it can be, and show that every fault that is left in it is needed.

Whole faults and operations go first, then values become plain and the schedule regular. In the end each item is taken
out alone, and faults in pairs: what is not missed, goes. Ctrl-C ends the search with the smallest script so far.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from math import inf
from pathlib import Path

from attrs import evolve

from harness.cli.common import (
    HELD,
    VIOLATED,
    Progress,
    chosen,
    diagram_argument,
    natural,
    outcome_as_json,
    positive,
    script_arguments,
    seconds,
    verdict,
    with_mutant,
    world_arguments,
)
from harness.cli.playing import chosen_world, draw, must_be_recorded
from harness.faults import Script
from harness.outcome import Outcome
from harness.run.regressions import Regression, code_version, store
from harness.run.replay_line import replay_line
from harness.scripts import describe, dumps
from harness.shrink import Shrunk, same_promise, shrink
from zab.core.plurals import counted


def add(parser: argparse.ArgumentParser) -> None:
    script_arguments(parser)
    world_arguments(parser)
    parser.add_argument("--runs", type=positive, default=400, help="run no more scripts than this (default 400)")
    parser.add_argument("--seconds", type=seconds, default=inf, metavar="S", help="end after so many seconds")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the script there, as JSON")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="store it there, with what is known of it, for tests")
    diagram_argument(parser)
    parser.add_argument("--trace", type=natural, default=40, metavar="N", help="show the last N acts (default 40)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    script = chosen(arguments)
    return with_mutant(arguments, lambda: _shrink_script(arguments, script))


def _shrink_script(arguments: argparse.Namespace, script: Script) -> int:
    there = chosen_world(arguments, script.machine)
    if arguments.diagram is not None:
        must_be_recorded(there)
    script = there.playable(script).script
    outcome = there.run(script)
    if outcome.promise is None:
        print(verdict(outcome))
        return HELD if outcome.held else VIOLATED
    with Progress(arguments.runs, "scripts tried") as progress:
        found = shrink(
            outcome.script,
            same_promise(there.run, outcome.promise, progress.step),
            runs_max=arguments.runs,
            seconds_max=arguments.seconds,
        )
    last = there.run(found.script, trace=True)
    path: Path | None = arguments.output
    if path is not None:
        path.write_text(dumps(found.script))
    if arguments.keep is not None:
        path = keep_script(arguments.keep, evolve(outcome, script=found.script), there.name, arguments.mutant)
    if arguments.diagram is not None:
        draw(arguments.diagram, last, there.name, arguments.mutant)
    line = replay_line(found.script, world=there.name, mutant=arguments.mutant, file=path)
    if arguments.json:
        proof = {
            "needed": [type(item).__name__ for item in found.proof.needed],
            "unproven": [type(item).__name__ for item in found.proof.unproven],
            "pairs": found.proof.pairs,
        }
        more = {"runs": found.runs, "runs_by_step": dict(found.runs_by_step), "proof": proof, "rerun": line}
        print(json.dumps({**outcome_as_json(last), **more}))
        return VIOLATED
    print(describe(found.script))
    print()
    if last.trace is not None and arguments.trace:
        print(last.trace.text(arguments.trace))
        print()
    print(verdict(last))
    if last.held:
        print(f"this world does not repeat itself: before, {outcome.promise} was broken: {outcome.what}")
    print(in_words(script, found))
    print(line)
    return VIOLATED


def _size(script: Script) -> str:
    faults, ops = len(script.faults), len(script.ops)
    return f"{counted(faults, 'fault')} and {counted(ops, 'operation')}"


def in_words(script: Script, found: Shrunk) -> str:
    """How far it got, at what price, and what is proven."""
    spent = ", ".join(f"{step} {runs}" for step, runs in found.runs_by_step.items())
    was, now = (_size(each) for each in (script, found.script))
    lines = [f"{counted(found.runs, 'run')} from {was} to {now} ({spent})"]
    proof = found.proof
    if proof.needed:
        pairs = f", and without any of {proof.pairs} pairs of faults" if proof.pairs else ""
        lines.append(f"without any single one of {len(proof.needed)} of them the failure goes{pairs}")
    if proof.unproven:
        why = "the search was interrupted" if found.interrupted else "no more runs were allowed"
        lines.append(f"not proven to be needed, as {why}: {len(proof.unproven)}")
    return "\n".join(lines)


def keep_script(folder: Path, outcome: Outcome, world: str, mutant: str | None) -> Path:
    assert outcome.promise is not None
    today = dt.date.today().isoformat()
    return store(
        folder, Regression(outcome.promise, outcome.script, mutant, world, today, code_version(), outcome.what)
    )
