"""Crash at each call to a disk in turn, and check every history.

Short scripts run again and again. Each run crashes one server, or with `--machine partitions` one broker, before
another call that changes its disk: write, sync, rename, sync of the directory, and so on. What was not synced is lost
(`lose`), kept as after the death of the process alone (`keep`), or torn by the sector (`tear`).

zab-harness crash-points                             the log and the snapshots of three servers
zab-harness crash-points --machine partitions        the logs of brokers
zab-harness crash-points --mutant M06c               with a planted bug: the log is written, but not synced
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from harness.cli.common import HELD, VIOLATED, Progress, mutant_argument, natural, positive, seconds
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.run.crash_points import CrashPoint, crash_points, short_script, targets
from harness.run.replay_line import replay_line
from harness.script.names import LOSSES
from zab.core.plurals import counted

SHOWN_MAX: Final = 5


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        choices=("list", "store", "partitions"),
        default="list",
        help="what is replicated: a list (default), the store, or the partitions of brokers",
    )
    parser.add_argument("--scripts", type=positive, default=1, help="how many (default 1)")
    parser.add_argument("--seed-base", type=natural, default=0, help="the seed of the first script (default 0)")
    parser.add_argument("--faults", type=natural, default=2, help="at most so many other faults (default 2)")
    parser.add_argument("--ops", type=natural, default=14, help="at most so many operations (default 14)")
    parser.add_argument("--length-ms", type=positive, default=700, help="of a script (default 700)")
    parser.add_argument("--loss", choices=LOSSES, action="append", help="the fate of what is not synced (default: all)")
    parser.add_argument("--target", type=positive, action="append", help="only this server or broker (default: all)")
    parser.add_argument("--seconds", type=seconds, default=None, metavar="S", help="end after this time")
    parser.add_argument("--stop-after", type=natural, default=10, metavar="N", help="end after N failures (default 10)")
    mutant_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    kinds: Counter[str] = Counter()
    failures: list[CrashPoint] = []
    complete = True
    edits = BY_NAME[arguments.mutant].edits if arguments.mutant else ()
    with planted(edits), Progress(arguments.scripts, "scripts") as progress:
        for number, point in _all_points(arguments):
            progress.show(number, f"{counted(kinds.total(), 'crash', 'crashes')}, at {point.kind}")
            kinds[point.kind] += 1
            if not point.outcome.held:
                failures.append(point)
            if 0 < arguments.stop_after <= len(failures) or _is_over(began, arguments.seconds):
                complete = False
                break
    if arguments.json:
        print(json.dumps(_as_json(kinds, failures, complete, arguments.mutant)))
    else:
        _print(kinds, failures, complete, arguments.mutant)
    return VIOLATED if failures else HELD


def _all_points(arguments: argparse.Namespace) -> Iterator[tuple[int, CrashPoint]]:
    """Run the scripts one after the other. Yield each crash with the number of its script."""
    for number in range(arguments.scripts):
        script = short_script(
            arguments.seed_base + number,
            arguments.machine,
            faults=arguments.faults,
            ops=arguments.ops,
            length_ms=arguments.length_ms,
        )
        for target in arguments.target or targets(script):
            for point in crash_points(script, target, arguments.loss or LOSSES):
                yield number, point


def _is_over(began: float, limit: float | None) -> bool:
    return limit is not None and time.monotonic() - began > limit


def _print(kinds: Counter[str], failures: list[CrashPoint], complete: bool, mutant: str | None) -> None:
    for point in failures[:SHOWN_MAX]:
        print(f"VIOLATED {point.outcome.promise}: {point.outcome.what}")
        print(f"  crash of {point.target} before call {point.call}, {point.kind}; what is not synced: {point.loss}")
        print(f"  {replay_line(point.script, mutant=mutant)}")
    if len(failures) > SHOWN_MAX:
        print(f"and {len(failures) - SHOWN_MAX} more")
    print(
        f"{counted(kinds.total(), 'crash', 'crashes')}, {len(failures)} failed" + ("" if complete else "; not complete")
    )
    print(", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))


def _as_json(kinds: Counter[str], failures: list[CrashPoint], complete: bool, mutant: str | None) -> dict[str, object]:
    return {
        "crashes": kinds.total(),
        "by_call": dict(kinds.most_common()),
        "complete": complete,
        "failures": [
            {
                "invariant": point.outcome.promise,
                "what": point.outcome.what,
                "target": point.target,
                "call": point.call,
                "kind": point.kind,
                "loss": point.loss,
                "replay": replay_line(point.script, mutant=mutant),
            }
            for point in failures
        ],
    }
