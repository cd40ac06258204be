"""The command `application`: a campaign against a program of the user."""

from __future__ import annotations

import json
import sys

from harness.cli import options
from harness.cli.root import INVALID, VALID, command
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments


@command(
    "application",
    options.argument("program", metavar="MODULE:MAIN"),
    options.option("--runs", "The number of runs.", options.POSITIVE, 100),
    options.SEED_BASE,
    options.option("--nodes", "The number of instances of the program.", options.POSITIVE, 3),
    options.option("--servers", "The number of store servers.", options.POSITIVE, 3),
    options.option("--faults", "The most faults of a run.", options.NATURAL, 8),
    options.option("--seconds", "Virtual time until all faults end.", options.SECONDS, 60.0),
    options.option(
        "--settle-seconds", "Virtual time after that in which `settled` must become true.", options.SECONDS, 60.0
    ),
    options.option("--jobs", "The number of processes.", options.POSITIVE, 1),
    options.option("--stop-after", "Stop at the Nth failing run; 0: never.", options.NATURAL, 1),
    options.option("--keep", "Store the smallest script of each failure in this folder.", options.FILE, metavar="DIR"),
    options.DIAGRAM,
    options.json_output(),
)
def application(arguments: Arguments) -> int:
    """Run a program of your own, in several instances, on simulated store servers under faults.

    MODULE:MAIN is an async function of a harness.Node, imported from the working directory or from what is installed.
    Functions named `invariant` and `settled` in its module are checked, and errors in `expected` may end MAIN: see
    harness.application. Each kind of failure is shrunk and explained. `replay`, `show` and `shrink` take the scripts.
    """
    from harness.embed.lookup import callable_named
    from harness.program.runs import application as campaign

    same = ("nodes", "servers", "seconds", "settle_seconds", "runs", "faults", "keep", "diagram", "jobs", "stop_after")
    given = {name: getattr(arguments, name) for name in same}
    try:
        report = campaign(callable_named(arguments.program), seed=arguments.seed_base, **given)
    except (TypeError, ValueError) as error:
        raise Misused(f"{arguments.program}: {error}") from error
    print(json.dumps(report.as_json()) if arguments.json else report)
    sys.stdout.flush()
    return VALID if report.valid else INVALID
