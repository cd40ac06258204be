"""Run many scripts and collect what fails."""

from __future__ import annotations

import argparse
import json
import os
import time

import attrs

from harness.cli.common import HELD, VIOLATED, Progress, natural, positive, size_arguments, sizes
from harness.cli.shrink import smaller
from harness.many import Failure, Plan, Tally, campaign
from harness.scripts import describe, dumps, to_json


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=positive, default=1_000, help="how many (default 1000)")
    parser.add_argument("--seed-base", type=natural, default=0, help="the first seed (default 0)")
    parser.add_argument("--servers", type=sizes, default=(3, 5), help="voters, in turn: 3,5 (the default)")
    parser.add_argument(
        "--jobs", type=positive, default=os.cpu_count() or 1, help="processes (default: one for each core)"
    )
    parser.add_argument(
        "--stop-after", type=natural, default=10, metavar="N", help="end after N failures (default 10; 0: never)"
    )
    parser.add_argument("--no-shrink", action="store_true", help="do not make the first failure smaller")
    size_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    plan = Plan(
        arguments.runs,
        arguments.seed_base,
        arguments.servers,
        arguments.observers,
        arguments.faults,
        arguments.ops,
        arguments.length_ms,
    )
    began = time.monotonic()
    with Progress(plan.runs, "runs") as progress:
        total = campaign(
            plan,
            jobs=arguments.jobs,
            stop_after=arguments.stop_after,
            seen=lambda so_far: progress.show(so_far.runs, f"{len(so_far.failures)} failed"),
        )
    took = time.monotonic() - began
    if arguments.json:
        made = attrs.asdict(total, filter=lambda attribute, _: attribute.name != "failures")
        made["failures"] = [
            {**attrs.asdict(failure, filter=lambda each, _: each.name != "script"), "script": to_json(failure.script)}
            for failure in total.failures
        ]
        print(json.dumps(made))
        return VIOLATED if total.failures else HELD
    print(_summary(plan, total, took))
    for failure in total.failures:
        print(f"VIOLATED {failure.promise}: {failure.what}")
        print(f"  {_rerun(plan, failure)}")
    if total.failures and not arguments.no_shrink:
        first = total.failures[0]
        found = smaller(first.script, first.promise, 300)
        print(f"\nthe first of them, made smaller in {found.runs} runs:")
        print(f"{describe(found.script)}\n\n{dumps(found.script)}")
    return VIOLATED if total.failures else HELD


def _summary(plan: Plan, total: Tally, took: float) -> str:
    seconds = total.core_seconds or 1e-9
    sizes = " and ".join(map(str, plan.voters))
    return (
        f"{total.runs} histories of {sizes} voters in {took:.0f} s: {len(total.failures)} failed\n"
        f"{total.committed} transactions committed, {total.acknowledged} acknowledged, {total.epochs} epochs, "
        f"{total.events} events in {total.simulated_ms // 1000} simulated seconds\n"
        f"{60 * total.runs / seconds:.0f} histories a minute of one core, "
        f"{total.simulated_ms / 1000 / seconds:.0f} simulated seconds a second; "
        f"slowest recovery {total.recovered_ms_max} ms\n"
        f"{', '.join(f'{name} {number}' for name, number in sorted(total.counts.items()))}"
    )


def _rerun(plan: Plan, failure: Failure) -> str:
    usual = Plan(1)
    words = [f"zab-harness replay --seed {plan.base + failure.number} --servers {failure.script.voters}"]
    for name in ("observers", "faults", "ops", "length_ms"):
        if getattr(plan, name) != getattr(usual, name):
            words.append(f"--{name.replace('_', '-')} {getattr(plan, name)}")
    return " ".join(words)
