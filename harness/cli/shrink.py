"""Make a failing script as small as it can be, so that every fault that is left is needed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from harness.cli.common import (
    HELD,
    VIOLATED,
    Progress,
    chosen,
    natural,
    outcome_as_json,
    positive,
    script_arguments,
    verdict,
    with_mutant,
)
from harness.faults import Script
from harness.scripts import describe, dumps
from harness.shrink import Shrunk, shrink
from harness.worlds.cores.world import run


def add(parser: argparse.ArgumentParser) -> None:
    script_arguments(parser)
    parser.add_argument("--runs", type=positive, default=400, help="run no more scripts than this (default 400)")
    parser.add_argument("--output", type=Path, help="write the script there, as JSON")
    parser.add_argument("--trace", type=natural, default=40, metavar="N", help="show the last N acts (default 40)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    script = chosen(arguments)
    return with_mutant(arguments, lambda: _shrink_script(arguments, script))


def _shrink_script(arguments: argparse.Namespace, script: Script) -> int:
    outcome = run(script)
    if outcome.held:
        print(verdict(outcome))
        return HELD
    with Progress(arguments.runs, "scripts tried") as progress:
        found = smaller(script, outcome.promise, arguments.runs, progress.step)
    if arguments.output is not None:
        arguments.output.write_text(dumps(found.script))
    last = run(found.script, trace=True)
    if arguments.json:
        print(json.dumps({**outcome_as_json(last), "runs": found.runs}))
        return VIOLATED
    assert last.trace is not None
    print(describe(found.script))
    print()
    print(last.trace.text(arguments.trace))
    print()
    print(verdict(last))
    print(f"{found.runs} runs to get here from {len(script.faults)} faults and {len(script.ops)} operations")
    return VIOLATED


def smaller(script: Script, promise: str | None, runs: int, step: Callable[[], None] = lambda: None) -> Shrunk:
    def fails(candidate: Script) -> bool:
        step()
        return run(candidate).promise == promise

    return shrink(script, fails, runs_max=runs)
