"""Write the report of a campaign again, from what `analyze` has stored: for instance when diagrams were added to it."""

from __future__ import annotations

import argparse
import json

from harness.cli.analyze import campaign_arguments, located, write_page
from harness.cli.common import HELD, Misuse
from harness.spark.analysis import NoAnalysis, stored


def add(parser: argparse.ArgumentParser) -> None:
    campaign_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print where the page is, and the verdict, as JSON")


def act(arguments: argparse.Namespace) -> int:
    layout = located(arguments.folder, arguments.campaign)
    try:
        made = stored(layout)
    except NoAnalysis as error:
        raise Misuse(str(error)) from error
    path = write_page(layout, made)
    if arguments.json:
        outcomes = {name: made.count(name) for name in ("runs", "held", "violated", "error")}
        print(json.dumps({"page": str(path), "held": made.held, "undecided": made.undecided, "runs": outcomes}))
    else:
        print(path)
    return HELD
