"""Draw a script from a seed and run it."""

from __future__ import annotations

import argparse

from harness.cli.common import run_arguments, script_from_seed_arguments
from harness.cli.replay import act

__all__ = ["act", "add"]


def add(parser: argparse.ArgumentParser) -> None:
    script_from_seed_arguments(parser, needed=True)
    run_arguments(parser)
