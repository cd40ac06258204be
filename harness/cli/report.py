"""Write the report of a campaign again, from what `analyze` has stored: for instance when diagrams were added to it."""

from __future__ import annotations

import argparse

from harness.cli.analyze import campaign_arguments, located, write_page
from harness.cli.common import HELD, Misuse
from harness.spark.analysis import NoAnalysis, stored


def add(parser: argparse.ArgumentParser) -> None:
    campaign_arguments(parser)


def act(arguments: argparse.Namespace) -> int:
    layout = located(arguments.folder, arguments.campaign)
    try:
        made = stored(layout)
    except NoAnalysis as error:
        raise Misuse(str(error)) from error
    print(write_page(layout, made))
    return HELD
