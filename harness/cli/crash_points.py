"""The command `crash-points`."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import click
from attrs import evolve, frozen

from harness.cli import options
from harness.cli.common import Progress
from harness.cli.root import INVALID, VALID, command
from harness.draw import script_from_seed
from harness.faults import CrashIn, LosePower, Script
from harness.outcome import Outcome
from harness.run.replay_line import replay_line
from harness.run.runner import with_bug
from harness.script.names import LOSSES
from harness.worlds import world
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted

SHOWN_MAX: Final = 5


def _number(name: str, default: int, about: str) -> options.Option:
    return options.option(name, about, options.NATURAL, default)


@command(
    "crash-points",
    options.option(
        "--machine",
        "The system under test: the consensus alone, the store, or the partitions of brokers.",
        click.Choice(("list", "store", "partitions")),
        "list",
    ),
    options.option("--scripts", "The number of scripts.", options.POSITIVE, 1),
    options.SEED_BASE,
    _number("--faults", 2, "The most other faults of a script."),
    _number("--ops", 14, "The most operations of a script."),
    options.option("--length-ms", "Its length.", options.POSITIVE, 700),
    options.option(
        "--loss", "The fate of data that is not synced [default: each].", click.Choice(LOSSES), multiple=True
    ),
    options.option("--target", "Crash only this server or broker [default: each].", options.POSITIVE, multiple=True),
    options.option("--seconds", "Stop after this time [default: never].", options.SECONDS),
    options.stop_after(),
    options.MUTANT,
    options.json_output(),
)
def crash_points(arguments: Arguments) -> int:
    """Crash at each call to a disk in turn, and check every history.

    Short scripts run again and again. Each run crashes one server, or with `--machine partitions` one broker, before
    another call that changes its disk: write, sync, rename, sync of the directory, and so on. Data that is not synced
    is lost (`lose`), kept as after the death of the process alone (`keep`), or torn by the sector (`tear`).

    \b
    zab-harness crash-points                         the log and the snapshots of three servers
    zab-harness crash-points --machine partitions    the logs of brokers
    zab-harness crash-points --mutant M06c           with a planted bug: the log is written, but not synced
    """
    began = time.monotonic()
    kinds: Counter[str] = Counter()
    failures: list[CrashPoint] = []
    complete = True
    with with_bug(arguments.mutant), Progress(arguments.scripts, "scripts") as progress:
        for number, point in _all_points(arguments):
            progress.show(number, f"{counted(kinds.total(), 'crash', 'crashes')}, at {point.kind}")
            kinds[point.kind] += 1
            if not point.outcome.valid:
                failures.append(point)
            if 0 < arguments.stop_after <= len(failures) or _is_over(began, arguments.seconds):
                complete = False
                break
    say = _as_json if arguments.json else _in_words
    print(say(kinds, failures, complete, arguments.mutant))
    return INVALID if failures else VALID


def _all_points(arguments: Arguments) -> Iterator[tuple[int, CrashPoint]]:
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
            for point in crashes_at_calls(script, target, arguments.loss or LOSSES):
                yield number, point


def _is_over(began: float, limit: float | None) -> bool:
    return limit is not None and time.monotonic() - began > limit


def _in_words(kinds: Counter[str], failures: list[CrashPoint], complete: bool, mutant: str | None) -> str:
    lines = []
    for point in failures[:SHOWN_MAX]:
        crash = f"crash of {point.target} before call {point.call}, {point.kind}"
        lines.append(f"VIOLATED {point.outcome.invariant}: {point.outcome.what}")
        lines.append(f"  {crash}; data that is not synced: {point.loss}\n  {replay_line(point.script, mutant=mutant)}")
    if len(failures) > SHOWN_MAX:
        lines.append(f"and {len(failures) - SHOWN_MAX} more")
    end = "" if complete else "; not complete"
    lines.append(f"{counted(kinds.total(), 'crash', 'crashes')}, {len(failures)} failed{end}")
    lines.append(", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    return "\n".join(lines)


def _as_json(kinds: Counter[str], failures: list[CrashPoint], complete: bool, mutant: str | None) -> str:
    names = ("target", "call", "kind", "loss")
    rows = [
        {"invariant": point.outcome.invariant, "what": point.outcome.what}
        | {name: getattr(point, name) for name in names}
        | {"replay": replay_line(point.script, mutant=mutant)}
        for point in failures
    ]
    by_call = dict(kinds.most_common())
    return json.dumps({"crashes": kinds.total(), "by_call": by_call, "complete": complete, "failures": rows})


DOWN_MS: Final = 60
COUNTED: Final = "crash "
"""The beginning of the name under which a world counts a crash at a call; the kind of the call follows."""


@frozen
class CrashPoint:
    """A crash of one server or broker before one call to its disk."""

    target: int
    call: int
    kind: str
    """write, sync, rename, sync_dir, ..."""
    loss: str
    script: Script
    outcome: Outcome


def short_script(seed: int, machine: str, *, faults: int, ops: int, length_ms: int) -> Script:
    """Draw a script with small files and frequent snapshots, so that a short run makes calls of all kinds."""
    script = script_from_seed(seed, voters=3, observers=0, faults=faults, ops=ops, length_ms=length_ms, machine=machine)
    knobs = evolve(script.knobs, snapshot_every=5, segment_bytes=min(script.knobs.segment_bytes, 500), chunk_bytes=40)
    return evolve(script, knobs=knobs)


def targets(script: Script) -> range:
    """Return the numbers of the brokers that have partitions, or of the servers."""
    return range(1, 1 + (script.brokers if script.machine == "partitions" else script.voters))


def crashes_at_calls(script: Script, target: int, losses: Sequence[str], first: int = 1) -> Iterator[CrashPoint]:
    """Run the script with a crash at each call of the target's disk, for each fate of data that is not synced.

    Runs are deterministic, so a run with a crash before call n equals the run without it up to that call. The numbers
    are counted up, from `first` on, until no crash occurs; then every call that changes the disk has had its crash.
    """
    run = world("cores").run
    for loss in losses:
        for call in count(first):
            crashing = _with_crash(script, target, call, loss)
            outcome = run(crashing)
            kinds = [what[len(COUNTED) :] for what, _ in outcome.counts if what.startswith(COUNTED)]
            if not kinds and outcome.valid:
                break
            yield CrashPoint(target, call, kinds[0] if kinds else "none", loss, crashing, outcome)
            if not kinds:
                break  # the script itself fails


def _with_crash(script: Script, target: int, call: int, loss: str) -> Script:
    if script.machine == "partitions":
        return evolve(script, ops=(LosePower(0, DOWN_MS, target, loss, call), *script.ops))
    return evolve(script, faults=(CrashIn(0, DOWN_MS, target, loss=loss, calls=call), *script.faults))
