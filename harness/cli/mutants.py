"""Put known bugs back, one at a time: a few core-seconds each at the median, 60 at most by default.

With `--output`, each script that showed a bug is made small and written there in words, beside a table of who noticed
what, and who else would have.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.cli.common import HELD, VIOLATED, Misuse, Progress, natural, near, seconds
from harness.mutants.edit import Stale
from harness.mutants.hunt import Verdict, examined, hunt, write
from harness.mutants.table import BY_NAME, IMPOSSIBLE, MUTANTS


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    parser.add_argument("--seconds", type=seconds, default=60.0, help="core-seconds for each (default 60)")
    parser.add_argument("--seed-base", type=natural, default=0, help="the first seed (default 0)")
    parser.add_argument("--list", action="store_true", help="only say what they are, and which bugs cannot be planted")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write table, results and small scripts there")
    parser.add_argument(
        "--shrink",
        type=natural,
        default=200,
        metavar="RUNS",
        help="with --output: at most for each script (default 200)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    unknown = [name for name in arguments.names if name not in BY_NAME]
    if unknown:
        likely = near(unknown[0], BY_NAME)
        raise Misuse(f"there is no mutant {', '.join(unknown)}{likely}; `mutants --list` has all")
    chosen = [mutant for mutant in MUTANTS if not arguments.names or mutant.name in arguments.names]
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name:<32} {mutant.bug}")
        print("\nnot to be planted here:")
        for name, why in IMPOSSIBLE.items():
            print(f"{name:<32} {why}")
        return HELD
    verdicts: list[Verdict] = []
    with Progress(len(chosen), "mutants") as progress:
        for number, mutant in enumerate(chosen):
            progress.show(number, mutant.name)
            try:
                verdict = hunt(mutant, seconds=arguments.seconds, base=arguments.seed_base)
            except Stale as stale:
                verdict = Verdict(mutant.name, None, f"does not fit the code any more: {stale}", 0, 0.0, None)
            verdicts.append(examined(verdict, shrink_runs=arguments.shrink) if arguments.output else verdict)
            if not arguments.json:
                progress.clear()
                print(_line(verdict), flush=True)
    if arguments.output is not None:
        write(arguments.output, verdicts)
    if arguments.json:
        print(json.dumps([result.as_json() for result in verdicts]))
    else:
        spent = sorted(verdict.core_seconds for verdict in verdicts)
        killed = sum(verdict.killed for verdict in verdicts)
        median = spent[len(spent) // 2]
        print(f"{killed} of {len(verdicts)} noticed; median {median:.2f} core-seconds, slowest {spent[-1]:.1f}")
    return HELD if all(verdict.killed for verdict in verdicts) else VIOLATED


def _line(verdict: Verdict) -> str:
    spent = f"{verdict.mutant:<32} {verdict.runs:>6} runs {verdict.core_seconds:>7.2f} s  "
    return spent + (f"noticed: {verdict.promise}" if verdict.killed else f"NOT NOTICED {verdict.what}")
