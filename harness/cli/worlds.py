"""The command `worlds`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from attrs import frozen

from harness.cli import options
from harness.cli.common import chosen, outcome_as_json, verdict
from harness.cli.root import INVALID, VALID, command
from harness.faults import FAULTS, MACHINES, OPS, Fault, Op, Reconfigure, Script
from harness.outcome import Outcome
from harness.scripts import describe
from harness.worlds import UNSUPPORTED, WORLDS, World, world
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments


def _names(text: str | tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(text.split(",")) if isinstance(text, str) else text
    for name in names:
        if name not in WORLDS:
            raise click.BadParameter(f"{name} is none of {', '.join(WORLDS)}")
    return names


@command(
    "worlds",
    options.flag("--compare", "Run the script of --seed or --script in all worlds, and compare."),
    options.option("--only", "Only these worlds.", _names, ",".join(WORLDS), metavar="A,B"),
    options.json_output(),
    *options.SCRIPT,
)
def worlds(arguments: Arguments) -> int:
    """List the worlds in which a script can run, and what each supports; or compare one script in all of them.

    \b
    cores      the cores of consensus on virtual time: every event is recorded, and a fault may occur between any two
    stack      whole servers with the shipped runtime, on virtual time and deterministic
    processes  real `zab serve` processes: sockets, files and signals of this machine, in real time

    A script is the same everywhere. Items that a world does not support are named and left out; the rest runs.
    """
    if arguments.mutant is not None:
        raise Misused("--mutant: the world processes has its servers in other processes, which would not have the bug")
    return _compare(arguments) if arguments.compare else _table(arguments)


# -- the supported items ---------------------------------------------------------------------------------


def examples() -> list[Fault | Op]:
    """Return one item of each kind."""
    kinds: list[Any] = [*FAULTS, *(kind for kind in OPS if kind is not Reconfigure)]
    return [*(kind(at=0) for kind in kinds), Reconfigure(0, "add", 1)]


def _table(arguments: Arguments) -> int:
    found = [world(name) for name in arguments.only]
    kinds = examples()
    if arguments.json:
        print(json.dumps({"worlds": [_as_json(each, kinds) for each in found]}))
        return VALID
    width = max(len(type(item).__name__) for item in kinds)
    for each in found:
        print(f"{each.name:<{width}}  {each.about}; --machine {', '.join(each.machines)}")
    print()
    print(" " * width + "".join(f"  {each.name}" for each in found) + "  in scripts for")
    for item in kinds:
        marks = "".join("  " + ("yes" if each.can(item) else "-").ljust(len(each.name)) for each in found)
        print(f"{type(item).__name__:<{width}}{marks}  {_machines(type(item))}")
    return VALID


def _machines(kind: type) -> str:
    """Return the machines whose scripts may contain this kind of item. Others leave it out, in every world."""
    names = [name for name in MACHINES if not issubclass(kind, UNSUPPORTED[name])]
    return "any" if len(names) == len(MACHINES) else ", ".join(names)


def _as_json(each: World, kinds: list[Fault | Op]) -> dict[str, object]:
    return {
        "name": each.name,
        "about": each.about,
        "machines": list(each.machines),
        "can": [type(item).__name__ for item in kinds if each.can(item)],
        "of_machine": {
            name: [type(item).__name__ for item in kinds if each.can(item) and name in each.machines_of(type(item))]
            for name in each.machines
        },
        "cannot": [type(item).__name__ for item in kinds if not each.can(item)],
    }


# -- the comparison ------------------------------------------------------------------------------------


@frozen
class Comparison:
    """The outcomes in all worlds. The script lacks the kinds of items that one of the worlds does not support."""

    script: Script
    left_out: tuple[str, ...]
    outcomes: tuple[tuple[str, Outcome], ...]

    @property
    def valid(self) -> bool:
        return all(outcome.valid for _, outcome in self.outcomes)

    @property
    def agree(self) -> bool:
        return len({outcome.invariant for _, outcome in self.outcomes}) == 1

    def differences(self) -> Iterator[str]:
        """Describe each world that differs from the first one."""
        (name, first), *others = self.outcomes
        for other, outcome in others:
            if outcome.invariant != first.invariant:
                yield f"{name}: {_verdict(first)}; {other}: {_verdict(outcome)}"


def _verdict(outcome: Outcome) -> str:
    return "valid" if outcome.valid else f"{outcome.invariant or 'unknown'}: {outcome.what}"


def compare(
    script: Script,
    names: Iterable[str] = WORLDS,
    *,
    begins: Callable[[str], object] = lambda name: None,
    chosen: Callable[[str], World] = world,
) -> Comparison:
    there = [chosen(name) for name in names]
    left_out: set[str] = set()
    for each in there:
        playable = each.playable(script)
        script = playable.script
        left_out.update(playable.skipped)
    outcomes = []
    for each in there:
        begins(each.name)
        outcomes.append((each.name, each.run(script)))
    return Comparison(script, tuple(sorted(left_out)), tuple(outcomes))


def _compare(arguments: Arguments) -> int:
    def begins(name: str) -> None:
        if sys.stderr.isatty():
            print(f"running in the world {name} ...", file=sys.stderr)

    found = compare(chosen(arguments), arguments.only, begins=begins)
    code = VALID if found.valid else INVALID
    if arguments.json:
        outcomes = {name: {**outcome_as_json(outcome), "script": None} for name, outcome in found.outcomes}
        made = {"agree": found.agree, "left_out": found.left_out, "worlds": outcomes}
        print(json.dumps(made))
        return code
    print(describe(found.script))
    if found.left_out:
        print(f"left out, because not all worlds support it: {', '.join(found.left_out)}")
    for name, outcome in found.outcomes:
        print(f"\n{name}: {verdict(outcome)}")
    print()
    for difference in found.differences():
        print(f"the verdicts differ: {difference}")
    if found.agree:
        print("the verdicts agree")
    return code
