"""Run a script again, from its seed or from a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness import history_json
from harness.checkers import records
from harness.cli.common import (
    HELD,
    VIOLATED,
    Misuse,
    chosen,
    outcome_as_json,
    run_arguments,
    script_arguments,
    verdict,
    with_mutant,
)
from harness.cli.playing import chosen_world, draw, must_be_recorded
from harness.faults import Script
from harness.outcome import Outcome
from harness.report.concerned import concerned
from harness.scripts import describe, dumps
from harness.trace import Trace, line


def add(parser: argparse.ArgumentParser) -> None:
    script_arguments(parser)
    run_arguments(parser)


def act(arguments: argparse.Namespace) -> int:
    script = chosen(arguments)
    if arguments.print:
        sys.stdout.write(dumps(script))
        return HELD
    return with_mutant(arguments, lambda: _run_script(arguments, script))


def _can_be_stored(path: Path, script: Script) -> None:
    if script.machine == "list":
        raise Misuse("--history: a list has no clients that see anything; --machine store has")
    if not path.parent.is_dir():
        raise Misuse(f"--history {path}: there is no directory {path.parent}")


def _run_script(arguments: argparse.Namespace, script: Script) -> int:
    there = chosen_world(arguments, script.machine)
    if arguments.diagram is not None:
        must_be_recorded(there)
    can = there.playable(script)
    script, skipped = can.script, can.skipped
    if arguments.history is not None:
        _can_be_stored(arguments.history, script)
    outcome = there.run(script, trace=bool(arguments.trace or arguments.hash or arguments.diagram))
    if arguments.history is not None and outcome.records is not None:
        arguments.history.write_text(records.dumps(outcome.records))
    elif arguments.history is not None and outcome.history is not None:
        arguments.history.write_text(history_json.dumps(outcome.history))
    if arguments.diagram is not None:
        draw(arguments.diagram, outcome, there.name, arguments.mutant)
    if arguments.json:
        made = {**outcome_as_json(outcome), "world": there.name, "skipped": skipped}
        if arguments.hash and outcome.trace is not None:
            made["hash"] = outcome.trace.hash()
        print(json.dumps(made))
        return HELD if outcome.held else VIOLATED
    print(describe(script))
    if skipped:
        print(f"left out, as the {script.machine} in this world cannot do it: {', '.join(skipped)}")
    print()
    if arguments.trace and outcome.trace is not None:
        _print_trace(arguments, outcome, outcome.trace)
    if arguments.hash and outcome.trace is not None:
        print(f"hash {outcome.trace.hash()}")
    print(verdict(outcome))
    return HELD if outcome.held else VIOLATED


def _print_trace(arguments: argparse.Namespace, outcome: Outcome, trace: Trace) -> None:
    """Print the last acts. Of a violation, print those that concern what the verdict names."""
    acts = trace.acts[-arguments.trace :]
    if not outcome.held and not arguments.every_act:
        acts, number = concerned(trace.acts, outcome.what, arguments.trace)
        print(
            f"{len(acts):,} of {number:,} acts that concern what the verdict names; --every-act shows the last of all"
        )
    for act in acts:
        print(line(act))
    print()
