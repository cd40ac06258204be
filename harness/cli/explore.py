"""The command `explore`."""

from __future__ import annotations

import json
import sys
from typing import Final

import click
from attrs import asdict

from harness.cli import options
from harness.cli.common import with_mutant
from harness.cli.root import INVALID, VALID, command
from harness.exploration.model import Bounds, Model
from harness.exploration.search import Found, Progress, Search
from harness.exploration.servers import OutOfScopeError
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted

_BOUNDS: Final = {
    "transactions": "The transactions that leaders propose.",
    "crashes": "The crashes, each with the loss of every write that is not durable.",
    "cuts": "How often a server is cut off from both others, and healed at any time later.",
    "leaders": "How often a server is elected; no bound with --election votes.",
    "stalls": "How often a server stops for longer than every time limit.",
}


def _bound(name: str, about: str) -> options.Option:
    default = getattr(Bounds(), name)
    return options.option(f"--{name}", about, options.NATURAL, default)


@command(
    "explore",
    *(_bound(name, about) for name, about in _BOUNDS.items()),
    options.option(
        "--election",
        "free: an election may have any result, and renamed servers are the same; votes: the servers elect by"
        " votes, and the order of their ids counts.",
        click.Choice(("free", "votes")),
        "free",
    ),
    options.flag("--no-reduction", "Explore independent steps in every order, not in one only."),
    options.option("--seconds", "Stop after this time [default: never].", options.SECONDS),
    options.option("--states", "Stop after N states [default: never].", options.POSITIVE),
    options.MUTANT,
    options.json_output(),
)
def explore(arguments: Arguments) -> int:
    """Explore every order of events of three servers within small bounds.

    The other commands generate runs by chance. This one visits every state that three servers can reach: whatever
    message arrives next, whatever write becomes durable next, whichever server is elected, crashes, restarts or is cut
    off. The checkers of the other commands judge every step. The search is breadth first, so a counterexample is short,
    and with --no-reduction a shortest one. It is printed as a numbered list of steps, and the exit status is 1.

    Each bound limits one kind of event in one execution. A crash or a cut multiplies the states by ten to some
    hundreds. Without faults the search ends in seconds, with one crash in minutes. docs/exploration.md has the numbers,
    and says what the exploration proves and what it does not.

    \b
    zab-harness explore --transactions 2 --crashes 0 --leaders 1
    zab-harness explore --transactions 1 --crashes 1 --leaders 2 --seconds 600
    zab-harness explore --crashes 0 --leaders 1 --mutant commit-without-quorum
    zab-harness explore --election votes --crashes 0 --leaders 1 --seconds 60
    """
    return with_mutant(arguments, lambda: _explore(arguments))


def _explore(arguments: Arguments) -> int:
    bounds = Bounds(**{name: getattr(arguments, name) for name in _BOUNDS})
    model = Model(bounds, oracle=arguments.election == "free", reduced=not arguments.no_reduction)
    search = Search(model, arguments.seconds, arguments.states, _report)
    try:
        found = search.run()
    except OutOfScopeError as error:
        raise Misused(f"the servers left the scope of the exploration: {error}") from error
    print(json.dumps(_as_json(found, bounds, arguments)) if arguments.json else _in_words(found))
    return VALID if found.violation is None else INVALID


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
            "valid: every state within the bounds was visited"
            if found.exhausted
            else f"valid so far: stopped before the end, {counted(progress.frontier, 'state')} to expand"
        )
        return f"{verdict}\n{numbers}"
    steps = [f"{number:>4}. {step}" for number, step in enumerate(found.steps, 1)]
    verdict = f"VIOLATED after {counted(len(steps), 'step')}: {found.violation}"
    return "\n".join([*steps, verdict, numbers])


def _as_json(found: Found, bounds: Bounds, arguments: Arguments) -> dict[str, object]:
    violation = found.violation
    return {
        "valid": violation is None,
        "exhausted": found.exhausted,
        "invariant": "" if violation is None else violation.invariant,
        "what": "" if violation is None else violation.what,
        "steps": list(found.steps),
        "bounds": asdict(bounds),
        "election": arguments.election,
        "reduction": not arguments.no_reduction,
        **asdict(found.progress),
    }
