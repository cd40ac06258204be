"""Draw a run: servers as lines, messages as arrows, faults as shading, in one HTML file that needs nothing else.

Of a run that broke a promise, what led to it is shown; the rest can be had by a click.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.cli.common import (
    HELD,
    VIOLATED,
    chosen,
    outcome_as_json,
    script_arguments,
    verdict,
    with_mutant,
    world_arguments,
)
from harness.cli.playing import chosen_world, draw, must_be_recorded
from harness.faults import Script


def add(parser: argparse.ArgumentParser) -> None:
    script_arguments(parser)
    world_arguments(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", default=Path("run.html"), help="where to (default run.html)"
    )
    parser.add_argument("--json", action="store_true", help="print where the page is, and the result, as JSON")


def act(arguments: argparse.Namespace) -> int:
    script = chosen(arguments)
    return with_mutant(arguments, lambda: _show(arguments, script))


def _show(arguments: argparse.Namespace, script: Script) -> int:
    there = chosen_world(arguments, script.machine)
    must_be_recorded(there)
    can = there.playable(script)
    outcome = there.run(can.script, trace=True)
    draw(arguments.output, outcome, there.name, arguments.mutant)
    if arguments.json:
        page = str(arguments.output.resolve())
        print(json.dumps({"page": page, **outcome_as_json(outcome), "world": there.name, "skipped": can.skipped}))
    else:
        print(verdict(outcome))
        print(f"drawn in {arguments.output}")
    return HELD if outcome.held else VIOLATED
