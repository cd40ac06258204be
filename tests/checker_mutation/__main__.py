"""Mutate the checkers of histories by rule, and report how many mutations the corpus of histories kills.

Mutations are drawn until the time is used up, an equal part of it for each group of checkers. Exit status 1: in some
group less than 19 of 20 mutations were killed, equivalent ones left out.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from harness.cli.common import Progress
from tests.checker_mutation.campaign import run_group, table
from tests.checker_mutation.cases import TARGETS

SCORE_MIN: Final = 0.95


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.checker_mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of checkers: {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="core-seconds for all groups (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="decides which mutations are drawn (default 0)")
    chosen = parser.parse_args(arguments)
    names = chosen.groups or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"there is no group {', '.join(unknown)}: use {', '.join(TARGETS)}")
    groups = []
    with Progress(0, "mutations") as progress:
        for name in names:
            seconds = chosen.seconds / len(names)
            groups.append(run_group(name, seed=chosen.seed, seconds=seconds, report=lambda result: progress.step()))
    for group in groups:
        for mutation in group.survivors:
            print(f"SURVIVED  {mutation.name}")
    print(table(groups), end="")
    return 0 if all(group.score >= SCORE_MIN for group in groups) else 1


if __name__ == "__main__":
    sys.exit(main())
