"""Explore every order of events of three servers within small bounds.

The other commands draw runs by chance. This one visits every state that three servers can reach: whatever message
arrives next, whatever write becomes durable next, whichever server is elected, crashes, restarts or is cut off. The
checkers of the other commands judge every step. The search is breadth first, so a counterexample is short, and with
--no-reduction a shortest one. It is printed as a numbered list of steps, and the exit status is 1.

Each bound limits one kind of event in one execution. A crash or a cut multiplies the states by ten to some hundreds.
Without faults the search ends in seconds, with one crash in minutes. docs/exploration.md has the numbers, and says what
the exploration proves and what it does not.

examples:
  zab-harness explore --transactions 2 --crashes 0 --leaders 1
  zab-harness explore --transactions 1 --crashes 1 --leaders 2 --seconds 600
  zab-harness explore --crashes 0 --leaders 1 --mutant commit-without-quorum
  zab-harness explore --election votes --crashes 0 --leaders 1 --seconds 60
"""

from __future__ import annotations

import argparse
import json
import sys

from attrs import asdict

from harness.cli.common import HELD, VIOLATED, Misuse, mutant_argument, natural, positive, seconds, with_mutant
from harness.exploration.model import Bounds, Model
from harness.exploration.search import Found, Progress, Search
from harness.exploration.servers import OutOfScopeError
from zab.core.plurals import counted


def add(parser: argparse.ArgumentParser) -> None:
    bounds = Bounds()
    parser.set_defaults(world="cores")
    for name, default, about in (
        ("transactions", bounds.transactions, "transactions that leaders propose"),
        ("crashes", bounds.crashes, "crashes, each with the loss of every write that is not durable"),
        ("cuts", bounds.cuts, "times that a server is cut off from both others, and healed at any time later"),
        ("leaders", bounds.leaders, "times that a server is elected; no bound with --election votes"),
        ("stalls", bounds.stalls, "times that a server stops for longer than every time limit"),
    ):
        parser.add_argument(
            f"--{name}", type=natural, default=default, metavar="N", help=f"{about} (default {default})"
        )
    parser.add_argument(
        "--election",
        choices=("free", "votes"),
        default="free",
        help="free: an election may have any result, and renamed servers are the same (default); "
        "votes: the servers elect by votes, and the order of their ids counts",
    )
    parser.add_argument(
        "--no-reduction", action="store_true", help="explore independent steps in every order, not in one order only"
    )
    parser.add_argument("--seconds", type=seconds, metavar="S", help="stop after so many seconds (default: never)")
    parser.add_argument("--states", type=positive, metavar="N", help="stop after so many states (default: never)")
    mutant_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def act(arguments: argparse.Namespace) -> int:
    return with_mutant(arguments, lambda: _explore(arguments))


def _explore(arguments: argparse.Namespace) -> int:
    bounds = Bounds(
        arguments.transactions, arguments.crashes, arguments.cuts, arguments.leaders, arguments.stalls
    )  # fmt: skip
    model = Model(bounds, oracle=arguments.election == "free", reduced=not arguments.no_reduction)
    search = Search(model, arguments.seconds, arguments.states, _report)
    try:
        found = search.run()
    except OutOfScopeError as error:
        raise Misuse(f"the exploration left its scope: {error}") from error
    if arguments.json:
        print(json.dumps(_as_json(found, bounds, arguments)))
    else:
        print(_in_words(found))
    return HELD if found.violation is None else VIOLATED


def _numbers(progress: Progress) -> str:
    return (
        f"{counted(progress.states, 'state')}, {counted(progress.transitions, 'transition')}, depth {progress.depth}, "
        f"{progress.seconds:.1f} s, {progress.states / max(progress.cpu_seconds, 0.001):.0f} states per second of CPU"
    )


def _report(progress: Progress) -> None:
    print(f"{_numbers(progress)}; {progress.frontier} to expand", file=sys.stderr, flush=True)


def _in_words(found: Found) -> str:
    progress = found.progress
    numbers = (
        f"{_numbers(progress)}\nreal code ran for {counted(progress.node_steps, 'step')} of servers and "
        f"{counted(progress.judge_steps, 'step')} of the checkers; {counted(progress.terminal, 'terminal state')}"
    )
    if found.violation is None:
        verdict = (
            "held: every state within the bounds was visited"
            if found.exhausted
            else f"held so far: stopped before the end, {counted(progress.frontier, 'state')} to expand"
        )
        return f"{verdict}\n{numbers}"
    steps = [f"{number:>4}. {step}" for number, step in enumerate(found.steps, 1)]
    verdict = f"VIOLATED after {counted(len(steps), 'step')}: {found.violation}"
    return "\n".join([*steps, verdict, numbers])


def _as_json(found: Found, bounds: Bounds, arguments: argparse.Namespace) -> dict[str, object]:
    violation = found.violation
    return {
        "held": violation is None,
        "exhausted": found.exhausted,
        "promise": "" if violation is None else violation.promise,
        "what": "" if violation is None else violation.what,
        "steps": list(found.steps),
        "bounds": asdict(bounds),
        "election": arguments.election,
        "reduction": not arguments.no_reduction,
        **asdict(found.progress),
    }
