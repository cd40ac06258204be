"""The command `mutants`."""

from __future__ import annotations

import json

from harness.cli import options
from harness.cli.common import Progress
from harness.cli.root import INVALID, VALID, command, near
from harness.mutants.edit import Stale
from harness.mutants.hunt import Verdict, examined, hunt, write
from harness.mutants.table import BY_NAME, IMPOSSIBLE, MUTANTS
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted


@command(
    "mutants",
    options.argument("names", nargs=-1, metavar="[NAME]..."),
    options.option("--seconds", "The most processor time of the search for each bug.", options.SECONDS, 60.0),
    options.SEED_BASE,
    options.flag("--list", "Print the bugs, and those that cannot be planted, and run nothing."),
    options.output("Write the table, the results and a small script for each bug into this folder.", metavar="DIR"),
    options.option(
        "--shrink",
        "With --output: the most runs to shrink each script; 0: do not shrink.",
        options.NATURAL,
        200,
        metavar="RUNS",
    ),
    options.json_output(),
)
def mutants(arguments: Arguments) -> int:
    """Plant known bugs, all or those with these names, one at a time: does a checker notice them?

    Most bugs are noticed within a few seconds of processor time. With `--output`, each script that showed a bug is
    shrunk and written into the folder in words, beside a table of the checkers that noticed, and that would have.
    """
    unknown = [name for name in arguments.names if name not in BY_NAME]
    if unknown:
        likely = near(unknown[0], BY_NAME)
        raise Misused(f"there is no mutant {', '.join(unknown)}{likely}; `mutants --list` has all")
    chosen = [mutant for mutant in MUTANTS if not arguments.names or mutant.name in arguments.names]
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name:<32} {mutant.bug}")
        print("\nbugs that cannot be planted here:")
        for name, why in IMPOSSIBLE.items():
            print(f"{name:<32} {why}")
        return VALID
    verdicts: list[Verdict] = []
    with Progress(len(chosen), "mutants") as progress:
        for number, mutant in enumerate(chosen):
            progress.show(number, mutant.name)
            try:
                verdict = hunt(mutant, seconds=arguments.seconds, base=arguments.seed_base)
            except Stale as stale:
                verdict = Verdict(mutant.name, None, f"does not match the code any more: {stale}", 0, 0.0, None)
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
        print(f"{killed} of {len(verdicts)} noticed; median {median:.2f} core-seconds, slowest {spent[-1]:.2f}")
    return VALID if all(verdict.killed for verdict in verdicts) else INVALID


def _line(verdict: Verdict) -> str:
    spent = f"{verdict.mutant:<32} {counted(verdict.runs, 'run'):>11} {verdict.core_seconds:>7.2f} s  "
    return spent + (f"noticed: {verdict.invariant}" if verdict.killed else f"NOT NOTICED {verdict.what}")
