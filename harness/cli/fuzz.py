"""The command `fuzz`: many runs, counted in memory or stored as a campaign."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from harness.cli import options
from harness.cli.common import Progress, check_profile, check_recorded, check_size, draw, with_mutant
from harness.cli.root import INVALID, VALID, command
from harness.cli.shrink import in_words, keep_script
from harness.faults import MACHINES, Script
from harness.mutants.table import BY_NAME
from harness.probes import PREFIX, Probe, missed, probes_of
from harness.recoveries import overlap_summary
from harness.run.mix import Mix, machines_and_worlds, mix_of, table
from harness.run.plan import Plan, world_for
from harness.run.replay_line import replay_line
from harness.run.runner import campaign
from harness.run.tally import Tally, grouped
from harness.scripts import describe, loads, to_json
from harness.shrink import same_invariant, shrink
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted, noun

if TYPE_CHECKING:
    from harness.spark.chunk import Done


RUNS: Final = 1_000
RUNS_MAX: Final = 1_000_000
"""The number of runs if only the time is limited: more than any campaign can do."""


def _stored(arguments: Arguments) -> str:
    if arguments.output is None:
        return "the runs so far are not stored; with --output they are, and the same command resumes"
    from harness.spark.campaign import Campaign

    try:
        done = Campaign.at(arguments.output, plan_of(arguments), sample=arguments.sample).done().runs
    except (OSError, Misused):
        return f"no run is finished in {arguments.output}"
    return f"{_finished(done)} in {arguments.output}; the same command resumes there"


def _finished(runs: int) -> str:
    return f"{counted(runs, 'run is', 'runs are')} finished and stored"


@command(
    "fuzz",
    options.option(
        "--runs",
        f"The number of runs [default: {RUNS}; with --seconds as many as there is time for].",
        options.POSITIVE,
    ),
    options.option("--seconds", "Start no run after this time. Not with --output.", options.POSITIVE, metavar="S"),
    options.SEED_BASE,
    options.option("--servers", "The numbers of voters, in turn.", options.sizes, "3,5", metavar="N,..."),
    options.option(
        "--jobs",
        "The number of processes, if Spark does not run them [default: one for each core].",
        options.POSITIVE,
        os.cpu_count() or 1,
        show_default=False,
    ),
    options.stop_after(" A stored campaign on Spark may find more before all its tasks have stopped."),
    options.world("cores and stack, mixed; stack for a machine of your own"),
    options.MUTANT,
    options.output("Store each run as a row here, and the history of failures and of a sample.", metavar="DIR"),
    options.option(
        "--master",
        "With --output: the master of Spark: local[*] (the default), spark://host:port, yarn, k8s://...; "
        "none: processes of this machine, without Spark.",
    ),
    options.option(
        "--sample", "With --output: store all events of one in N valid runs; 0: of none.", options.NATURAL, 100
    ),
    options.keep("the first failure, shrunk,"),
    options.DIAGRAM,
    options.flag("--no-shrink", "Do not shrink the first failure."),
    *options.SIZES,
    options.machine(None, " [default: all, mixed]"),
    options.profile(None, " [default: usual scripts and all profiles, mixed]"),
    options.json_output(),
    stored=_stored,
)
def fuzz(arguments: Arguments) -> int:
    """Run many scripts and collect failures. Each failure is printed with the command that repeats it.

    What is not given is mixed: the systems under test, the worlds cores and stack, and the profiles of scripts. Each
    combination has a minimum share of the processor time. The rest follows what the combinations have yielded so far:
    new coverage probes, new pairs of overlapping faults, and failures. The same --runs and --seed-base give the same
    runs, for any number of processes.

    With --output the runs become a stored campaign: a row for each run, and all events of failures and of a sample of
    the valid runs. It runs on Spark, on this machine or on a cluster. Finished work is never lost: the same command
    resumes, and with more --runs continues. It is not mixed: its defaults are list, cores, and usual scripts.
    """
    if arguments.output is not None and arguments.seconds is not None:
        raise Misused(
            "--seconds is not for stored campaigns: with --output, limit --runs; the same command resumes a campaign"
        )
    if arguments.output is None and arguments.master not in (None, "none"):
        raise Misused("--master is for stored campaigns: give their folder with --output")
    check_size(max(arguments.servers), arguments.observers)
    if arguments.output is not None:
        plan = plan_of(arguments)
        _check(arguments, [plan])
        return run_stored(arguments, plan)
    mix = mix_from(arguments)
    _check(arguments, [kind.plan for kind in mix.kinds])
    return _run_in_memory(arguments, mix)


def _check(arguments: Arguments, plans: Sequence[Plan]) -> None:
    for plan in plans:
        check_profile(plan.profile, plan.machine)
        if arguments.diagram is not None:
            check_recorded(world_for(plan.machine, plan.world))


def plan_of(arguments: Arguments) -> Plan:
    """Return the plan of a stored campaign: if nothing else is given, usual scripts of the list in the world cores."""
    machine = arguments.machine or MACHINES[0]
    return Plan(
        arguments.runs or (RUNS if arguments.seconds is None else RUNS_MAX),
        arguments.seed_base,
        arguments.servers,
        arguments.observers,
        arguments.faults,
        arguments.ops,
        arguments.length_ms,
        world_for(machine, arguments.world).name,
        machine,
        arguments.mutant,
        arguments.together,
        arguments.profile or "",
    )


def mix_from(arguments: Arguments) -> Mix:
    """Return the mix of everything that is not given. A mutant names the machine and the world in which it shows."""
    machine, world, profile = arguments.machine, arguments.world, arguments.profile
    if arguments.mutant is not None and machine in (None, BY_NAME[arguments.mutant].machine):
        machine = BY_NAME[arguments.mutant].machine
        world = world or BY_NAME[arguments.mutant].world
    return mix_of(plan_of(arguments), *machines_and_worlds(machine, world, profile), profile)


# -- in memory -------------------------------------------------------------------------------------------


def _run_in_memory(arguments: Arguments, mix: Mix) -> int:
    began = time.monotonic()
    total = Tally()

    def seen(so_far: Tally) -> None:
        nonlocal total
        total = so_far
        progress.show(so_far.runs, f"{len(so_far.failures)} failed")

    runs = mix.kinds[0].plan.runs
    with Progress(None if arguments.runs is None and arguments.seconds else runs, "runs") as progress:
        try:
            total = campaign(
                mix, jobs=arguments.jobs, stop_after=arguments.stop_after, seconds=arguments.seconds, seen=seen
            )
        except KeyboardInterrupt:
            progress.clear()
            _print(arguments, mix, total, time.monotonic() - began)
            sys.stdout.flush()
            raise
    _print(arguments, mix, total, time.monotonic() - began)
    if not total.failures:
        overdue = any(late for _, late in _missed(mix))
        return INVALID if total.unknown or overdue else VALID
    first = total.failures[0]
    world = next(kind.plan.world for kind in mix.kinds if first in kind.total.failures)
    return show_smaller(arguments, first.script, first.invariant, world, arguments.diagram)


def _print(arguments: Arguments, mix: Mix, total: Tally, took: float) -> None:
    """Print the totals of the runs, also after an interrupt."""
    mix.finish()
    missed = _missed(mix)
    if arguments.json:
        made = attrs.asdict(total, filter=lambda attribute, _: attribute.name not in ("failures", "overlaps"))
        made["overlaps"] = sorted(total.overlaps)
        made["never"] = [point.name for point, _ in missed]
        made["overdue"] = [point.name for point, late in missed if late]
        made["failures"] = [
            {**attrs.asdict(failure, filter=lambda each, _: each.name != "script"), "script": to_json(failure.script)}
            for failure in total.failures
        ]
        made["mix"] = [kind.as_json() for kind in mix.kinds if kind.total.runs]
        print(json.dumps(made))
        return
    print(_summary(mix.kinds[0].plan, total, took))
    if len(mix.kinds) > 1:
        print("\n".join(table(mix)))
    if pairs := overlap_summary(total.overlaps):
        print(pairs)
    for failure in total.failures:
        print(f"VIOLATED {failure.invariant}: {failure.what}\n  {failure.replay}")
    for each in total.unknown:
        print(f"UNKNOWN {each.what}\n  {each.replay}")
    for point, late in missed:
        word = "OVERDUE" if late else "never yet"
        print(f"{word} {point.name}: {point.what} (once in {counted(point.budget, 'run')})")


def _missed(mix: Mix) -> list[tuple[Probe, bool]]:
    """Return the coverage probes that no run in the world cores reached.

    A probe is overdue if the number of usual runs has reached its budget.
    """
    found: dict[Probe, bool] = {}
    for machine in dict.fromkeys(kind.plan.machine for kind in mix.kinds):
        kinds = [kind for kind in mix.kinds if (kind.plan.machine, kind.plan.world) == (machine, "cores")]
        reached = {name: 1 for kind in kinds for name in kind.total.counts}
        usual = sum(kind.total.runs for kind in kinds if _is_usual(kind.plan))
        for point in missed(reached, probes_of(machine)) if kinds else ():
            found[point] = found.get(point, False) or point.budget <= usual
    return list(found.items())


def _is_usual(plan: Plan) -> bool:
    usual = Plan(1)
    small = plan.faults < usual.faults or plan.ops < usual.ops or plan.length_ms < usual.length_ms
    special = plan.profile or plan.observers is not None or plan.mutant is not None
    return not small and not special and set(usual.voters) <= set(plan.voters)


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


# -- the first failure -----------------------------------------------------------------------------------


def show_smaller(arguments: Arguments, script: Script, invariant: str, world: str, diagram: Path | None) -> int:
    """Shrink, keep and draw the first failure. In the world processes this would take hours."""
    wanted = not arguments.no_shrink and not arguments.json
    there = world_for(script.machine, world)
    if there.name == "processes" or not (wanted or arguments.keep is not None or diagram is not None):
        return INVALID

    def act() -> int:
        run = there.run
        found = None if arguments.no_shrink else shrink(script, same_invariant(run, invariant), runs_max=300)
        last = run(script if found is None else found.script, trace=True)
        path = None
        if arguments.keep is not None:
            path = keep_script(arguments.keep, last, there.name, arguments.mutant)
        if diagram is not None:
            draw(diagram, last, there.name, arguments.mutant)
        if wanted and found is not None:
            print(f"\nthe first failure, shrunk:\n{in_words(script, found)}\n\n{describe(found.script)}\n")
            if last.explanation:
                print(f"{last.explanation}\n")
            beside = None if diagram is None else diagram.with_suffix(".json")
            print(replay_line(found.script, world=there.name, mutant=arguments.mutant, file=path, beside=beside))
            if diagram is not None:
                print(f"drawn in {diagram}")
        return INVALID

    return with_mutant(arguments, act)


@attrs.frozen
class FailureKind:
    """The runs of a campaign that violate one invariant, or end by the same error: how many, and the lowest seed."""

    outcome: str
    invariant: str | None
    runs: int
    seed: int
    voters: int
    what: str
    script: str


def failures_by_kind(table: Path) -> list[FailureKind]:
    """Read the rows of a campaign. The kind of the lowest seed is first."""
    import pyarrow.parquet as pq

    columns = ["seed", "voters", "outcome", "invariant", "what", "script"]
    rows = [row for path in table.glob("*.parquet") for row in pq.read_table(path, columns=columns).to_pylist()]
    failed = [row for row in rows if row["outcome"] in ("invalid", "error")]
    failed.sort(key=lambda row: int(row["seed"]))
    kinds = grouped(failed, lambda row: (row["outcome"], row["invariant"]))
    return [FailureKind(**row, runs=runs) for row, runs in kinds]


# -- stored ----------------------------------------------------------------------------------------------


def run_stored(arguments: Arguments, plan: Plan) -> int:
    from harness.spark.campaign import Campaign, Stopped, in_processes, in_spark

    began = time.monotonic()
    with Progress(plan.runs, "runs") as progress:

        def seen(done: Done) -> bool:
            failed = done.invalid + done.errors
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
            raise Misused(f"{error.filename or arguments.output}: {error.strerror}") from error
        except Stopped as stopped:
            raise Misused(f"{stopped}\n{_finished(made.done().runs)}; the same command resumes there") from stopped
    took = time.monotonic() - began
    kinds = failures_by_kind(made.layout.table("runs")) if done.invalid or done.errors else []
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
            broken = kind.outcome.upper() if kind.invariant is None else f"VIOLATED {kind.invariant}:"
            print(f"{broken} {kind.what} ({counted(kind.runs, 'run')})")
            print(f"  {plan.replay_line(kind.seed, kind.voters)}")
    for kind in kinds:
        if kind.invariant is not None:
            drawn = arguments.diagram or made.layout.root / "first-failure.html"
            return show_smaller(arguments, loads(kind.script), kind.invariant, plan.world, drawn)
    return INVALID if done.invalid or done.unknown or done.errors else VALID


def _counted(done: Done) -> str:
    return f"{done.invalid} invalid, {done.unknown} unknown, {counted(done.errors, 'error')}"
