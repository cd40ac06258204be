"""Run many scripts and collect what fails.

With --output the runs become a campaign that is kept: one row for each, with all that happened in failures and in a
sample of the others. It runs on Spark, here or on a cluster, and what is finished stays finished: the same command
again goes on where it was, and with more --runs further.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from harness.cli.common import (
    HELD,
    VIOLATED,
    Misuse,
    Progress,
    diagram_argument,
    must_fit,
    mutant_argument,
    natural,
    positive,
    size_arguments,
    sizes,
    too_many_servers,
    usual_worlds,
    with_mutant,
)
from harness.cli.playing import draw, must_be_recorded
from harness.cli.shrink import in_words, keep_script
from harness.draw import JOINERS
from harness.faults import Script
from harness.overlaps import summary
from harness.points import Point, missed, points_of
from harness.points.table import PREFIX
from harness.run.plan import Plan
from harness.run.replay_line import replay_line
from harness.run.runner import Tally, campaign, grouped
from harness.run.worlds import world_for
from harness.script.checks import SERVERS_MAX
from harness.scripts import describe, loads, to_json
from harness.shrink import same_promise, shrink
from harness.worlds import WORLDS
from zab.core.plurals import counted, noun

if TYPE_CHECKING:
    from harness.spark.chunk import Done


RUNS: Final = 1_000
RUNS_MAX: Final = 1_000_000
"""More than there ever is time for."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=positive, help="how many (default 1000; with --seconds: as many as there is time for)"
    )
    parser.add_argument("--seconds", type=positive, metavar="S", help="begin none when so many have gone by")
    parser.add_argument("--seed-base", type=natural, default=0, help="the first seed (default 0)")
    parser.add_argument("--servers", type=sizes, default=(3, 5), help="voters, in turn: 3,5 (the default)")
    parser.add_argument(
        "--jobs", type=positive, default=os.cpu_count() or 1, help="processes (default: one for each core)"
    )
    parser.add_argument(
        "--stop-after", type=natural, default=10, metavar="N", help="end after N failures (default 10; 0: never)"
    )
    parser.add_argument("--world", choices=WORLDS, help=f"where to run them (default {usual_worlds()})")
    mutant_argument(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="keep rows and histories there, as a campaign; draw the first failure",
    )
    parser.add_argument(
        "--master",
        help="with --output: Spark's master, local[*] (the default), spark://host:port, yarn, k8s://...; "
        "none: processes on this machine, without Spark",
    )
    parser.add_argument(
        "--sample",
        type=natural,
        default=100,
        metavar="N",
        help="keep all acts of one in N runs that hold (default 100)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="store the first failure there, made smaller, for tests to replay"
    )
    diagram_argument(parser)
    parser.add_argument("--no-shrink", action="store_true", help="do not make the first failure smaller")
    size_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def plan_of(arguments: argparse.Namespace) -> Plan:
    return Plan(
        arguments.runs or (RUNS if arguments.seconds is None else RUNS_MAX),
        arguments.seed_base,
        arguments.servers,
        arguments.observers,
        arguments.faults,
        arguments.ops,
        arguments.length_ms,
        world_for(arguments.machine, arguments.world).name,
        arguments.machine,
        arguments.mutant,
        arguments.together,
        arguments.profile,
    )


def act(arguments: argparse.Namespace) -> int:
    plan = plan_of(arguments)
    must_fit(plan.profile, plan.machine)
    if arguments.diagram is not None:
        must_be_recorded(world_for(plan.machine, plan.world))
    if max(plan.voters) + (plan.observers or 0) > SERVERS_MAX - JOINERS:
        raise Misuse(too_many_servers(max(plan.voters), plan.observers))
    if arguments.output is not None and arguments.seconds is not None:
        raise Misuse("--seconds is for runs that are not kept: a campaign in --output goes on where it was, by --runs")
    if arguments.output is not None:
        return kept(arguments, plan)
    if arguments.master not in (None, "none"):
        raise Misuse("Spark keeps what it runs: say where, with --output")
    began = time.monotonic()
    total = Tally()

    def seen(so_far: Tally) -> None:
        nonlocal total
        total = so_far
        progress.show(so_far.runs, f"{len(so_far.failures)} failed")

    with Progress(None if arguments.runs is None and arguments.seconds else plan.runs, "runs") as progress:
        try:
            total = campaign(
                plan, jobs=arguments.jobs, stop_after=arguments.stop_after, seconds=arguments.seconds, seen=seen
            )
        except KeyboardInterrupt:
            progress.clear()
            _say(arguments, plan, total, time.monotonic() - began)
            sys.stdout.flush()
            raise
    _say(arguments, plan, total, time.monotonic() - began)
    if not total.failures:
        return VIOLATED if total.undecided or _overdue(plan, total) else HELD
    first = total.failures[0]
    return show_smaller(arguments, first.script, first.promise, arguments.diagram)


def _say(arguments: argparse.Namespace, plan: Plan, total: Tally, took: float) -> None:
    """Report the sums of the runs, also after an early end."""
    if arguments.json:
        made = attrs.asdict(total, filter=lambda attribute, _: attribute.name not in ("failures", "overlaps"))
        made["overlaps"] = sorted(total.overlaps)
        made["never"] = [point.name for point in _never(plan, total)]
        made["overdue"] = [point.name for point in _overdue(plan, total)]
        made["failures"] = [
            {**attrs.asdict(failure, filter=lambda each, _: each.name != "script"), "script": to_json(failure.script)}
            for failure in total.failures
        ]
        print(json.dumps(made))
    else:
        print(_summary(plan, total, took))
        if pairs := summary(total.overlaps):
            print(pairs)
        for failure in total.failures:
            print(f"VIOLATED {failure.promise}: {failure.what}")
            print(f"  {plan.replay_line(failure.script.seed, failure.script.voters)}")
        for each in total.undecided:
            print(f"UNDECIDED {each.what}\n  {plan.replay_line(each.seed, each.voters)}")
        for point in _never(plan, total):
            late = point in _overdue(plan, total)
            print(
                f"{'OVERDUE' if late else 'never yet'} {point.name}: {point.what} "
                f"(once in {counted(point.budget, 'run')})"
            )


# -- what must occur -------------------------------------------------------------------------------------


def _never(plan: Plan, total: Tally) -> list[Point]:
    """Situations that no run came to, of those that this world sees."""
    return missed(total.counts, points_of(plan.machine)) if plan.world == "cores" else []


def _overdue(plan: Plan, total: Tally) -> list[Point]:
    """Those that so many runs must have come to. Runs that are smaller than usual, or of few servers, need not."""
    usual = Plan(1)
    small = plan.faults < usual.faults or plan.ops < usual.ops or plan.length_ms < usual.length_ms
    if (
        small
        or plan.profile
        or plan.observers is not None
        or not set(usual.voters) <= set(plan.voters)
        or plan.mutant is not None
    ):
        return []
    return [point for point in _never(plan, total) if point.budget <= total.runs]


# -- the first failure -----------------------------------------------------------------------------------


def show_smaller(arguments: argparse.Namespace, script: Script, promise: str, diagram: Path | None) -> int:
    """Shrink, keep and draw the first failure. In the world of processes this would take hours."""
    wanted = not arguments.no_shrink and not arguments.json
    there = world_for(script.machine, arguments.world)
    if there.name == "processes" or not (wanted or arguments.keep is not None or diagram is not None):
        return VIOLATED

    def act() -> int:
        run = there.run
        found = None if arguments.no_shrink else shrink(script, same_promise(run, promise), runs_max=300)
        last = run(script if found is None else found.script, trace=True)
        path = None
        if arguments.keep is not None:
            path = keep_script(arguments.keep, last, there.name, arguments.mutant)
        if diagram is not None:
            draw(diagram, last, there.name, arguments.mutant)
        if wanted and found is not None:
            print(f"\nthe first of them, made smaller:\n{in_words(script, found)}\n\n{describe(found.script)}\n")
            if last.explanation:
                print(f"{last.explanation}\n")
            beside = None if diagram is None else diagram.with_suffix(".json")
            print(replay_line(found.script, world=there.name, mutant=arguments.mutant, file=path, beside=beside))
            if diagram is not None:
                print(f"drawn in {diagram}")
        return VIOLATED

    return with_mutant(arguments, act)


@attrs.frozen
class FailureKind:
    """The failures of a campaign that break one promise, or that are errors of the harness: their number, and the one
    with the lowest seed."""

    outcome: str
    promise: str | None
    runs: int
    seed: int
    voters: int
    what: str
    script: str


def failures_by_kind(table: Path) -> list[FailureKind]:
    """Read the rows of a campaign. The kind of the lowest seed is first."""
    import pyarrow.parquet as pq

    columns = ["seed", "voters", "outcome", "promise", "what", "script"]
    rows = [row for path in table.glob("*.parquet") for row in pq.read_table(path, columns=columns).to_pylist()]
    failed = [row for row in rows if row["outcome"] in ("violated", "error")]
    failed.sort(key=lambda row: int(row["seed"]))
    kinds = grouped(failed, lambda row: (row["outcome"], row["promise"]))
    return [FailureKind(**row, runs=runs) for row, runs in kinds]


# -- a campaign that is kept -----------------------------------------------------------------------------


def kept(arguments: argparse.Namespace, plan: Plan) -> int:
    from harness.spark.campaign import Campaign, Stopped, in_processes, in_spark

    began = time.monotonic()
    with Progress(plan.runs, "runs") as progress:

        def seen(done: Done) -> bool:
            failed = done.violated + done.errors
            progress.show(done.runs, _counted(done))
            return not arguments.stop_after or failed < arguments.stop_after

        try:
            made = Campaign.at(arguments.output, plan, sample=arguments.sample, stop_after=arguments.stop_after)
            before = made.done()
            if not made.left():
                done = before
            elif arguments.master == "none":
                done = made.run(in_processes(arguments.jobs), seen)
            else:
                from harness.spark.session import session

                with session(arguments.master or "local[*]", f"fuzz {made.layout.name}", quick=True) as spark:
                    done = made.run(in_spark(spark), seen)
        except OSError as error:
            raise Misuse(f"{error.filename or arguments.output}: {error.strerror}") from error
        except Stopped as stopped:
            raise Misuse(f"{stopped}\n{_finished(made.done().runs)}; the same command goes on from there") from stopped
    took = time.monotonic() - began
    kinds = failures_by_kind(made.layout.table("runs")) if done.violated or done.errors else []
    if arguments.json:
        failures = [attrs.asdict(kind) | {"rerun": plan.replay_line(kind.seed, kind.voters)} for kind in kinds]
        sums = {**attrs.asdict(done), "before": before.runs, "campaign": str(made.layout.root)}
        print(json.dumps(sums | {"failures": failures}))
    else:
        print(
            f"{done.runs} of {counted(plan.runs, 'history', 'histories')}, {done.runs - before.runs} of them "
            f"in these {took:.0f} s: "
            f"{_counted(done)}\n{made.layout.root}\n"
            f"zab-harness analyze {made.layout.root}"
        )
        for kind in kinds:
            broken = kind.outcome.upper() if kind.promise is None else f"VIOLATED {kind.promise}:"
            print(f"{broken} {kind.what} ({counted(kind.runs, 'run')})")
            print(f"  {plan.replay_line(kind.seed, kind.voters)}")
    for kind in kinds:
        if kind.promise is not None:
            drawn = arguments.diagram or made.layout.root / "first-failure.html"
            return show_smaller(arguments, loads(kind.script), kind.promise, drawn)
    return VIOLATED if done.violated or done.undecided or done.errors else HELD


def _counted(done: Done) -> str:
    return f"{done.violated} violated, {done.undecided} undecided, {counted(done.errors, 'error')}"


def left(arguments: argparse.Namespace) -> str:
    """Report the partial result of a command that was stopped."""
    if arguments.output is None:
        return "nothing is kept of the runs so far; with --output they are, and the same command goes on from there"
    from harness.spark.campaign import Campaign

    try:
        done = Campaign.at(arguments.output, plan_of(arguments), sample=arguments.sample).done().runs
    except (OSError, Misuse):
        return f"nothing is finished in {arguments.output}"
    return f"{_finished(done)} in {arguments.output}; the same command goes on from there"


def _finished(runs: int) -> str:
    return f"{counted(runs, 'run is', 'runs are')} finished and kept"


# -- words ---------------------------------------------------------------------------------------------


def _summary(plan: Plan, total: Tally, took: float) -> str:
    seconds = total.core_seconds or 1e-9
    sizes = " and ".join(map(str, plan.voters))
    return (
        f"{counted(total.runs, 'history', 'histories')} of {sizes} {noun(plan.voters[-1], 'voter')} "
        f"in {took:.0f} s: {len(total.failures)} failed\n"
        f"{counted(total.committed, 'transaction')} committed, "
        f"{total.acknowledged} acknowledged, {counted(total.epochs, 'epoch')}, "
        f"{total.events} events in {total.simulated_ms // 1000} simulated seconds\n"
        f"{60 * total.runs / seconds:.0f} histories a minute of one core, "
        f"{total.simulated_ms / 1000 / seconds:.0f} simulated seconds a second; "
        f"slowest recovery {total.recovered_ms_max} ms\n"
        f"{', '.join(f'{name} {number}' for name, number in sorted(total.counts.items()) if PREFIX not in name)}"
    )
