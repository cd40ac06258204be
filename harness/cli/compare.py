"""Say what changed between two campaigns: failures that are new, gone or still there, and numbers that moved.

Both must have been analysed. Exit status 1: the second has a kind of failure that the first has not, or is the first of
which something could not be decided.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.cli.analyze import located
from harness.cli.common import HELD, VIOLATED, Misuse
from harness.spark.analysis import Analysis, NoAnalysis, stored
from harness.spark.compare import compare, text


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="A", help="the one campaign")
    parser.add_argument("after", type=Path, metavar="B", help="the other")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    made = compare(_stored(arguments.before), _stored(arguments.after))
    print(json.dumps(made.as_json()) if arguments.json else text(made))
    return VIOLATED if made.worse else HELD


def _stored(path: Path) -> Analysis:
    try:
        return stored(located(path, None))
    except NoAnalysis as error:
        raise Misuse(str(error)) from error
