"""List the worlds and what each can do; with --compare, run one script in all of them.

  cores      turns the consensus cores in virtual time: every act is seen, and a fault may strike between any two
  stack      whole members, the runtime as it is shipped, on virtual time and deterministic
  processes  real `zab serve` processes: sockets, files and signals of this machine, in real time

A script is the same everywhere. What a world cannot do of it is named and left out; the rest is done, and judged.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from harness.cli.common import HELD, VIOLATED, Misuse, chosen, outcome_as_json, script_arguments, verdict
from harness.faults import FAULTS, MACHINES, OPS, Fault, Op, Reconfigure
from harness.run.comparison import compare
from harness.scripts import describe
from harness.worlds import ALIEN, WORLDS, World, world


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compare", action="store_true", help="run one script in all worlds; --seed or --script says which"
    )
    parser.add_argument("--only", type=_names, default=WORLDS, metavar="A,B", help="these worlds (default: all)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    script_arguments(parser)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in WORLDS:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(WORLDS)}")
    return names


def act(arguments: argparse.Namespace) -> int:
    if arguments.mutant is not None:
        raise Misuse("not all worlds have their servers in this process, so a bug cannot be put back into all of them")
    return _compare(arguments) if arguments.compare else _table(arguments)


# -- what they can do ----------------------------------------------------------------------------------


def examples() -> list[Fault | Op]:
    """One of each kind."""
    kinds: list[Any] = [*FAULTS, *(kind for kind in OPS if kind is not Reconfigure)]
    return [*(kind(at=0) for kind in kinds), Reconfigure(0, "add", 1)]


def _table(arguments: argparse.Namespace) -> int:
    found = [world(name) for name in arguments.only]
    kinds = examples()
    if arguments.json:
        print(json.dumps({"worlds": [_as_json(each, kinds) for each in found]}))
        return HELD
    width = max(len(type(item).__name__) for item in kinds)
    for each in found:
        print(f"{each.name:<{width}}  {each.about}; --machine {', '.join(each.machines)}")
    print()
    print(" " * width + "".join(f"  {each.name}" for each in found) + "  in scripts for")
    for item in kinds:
        marks = "".join("  " + (_YES if each.can(item) else _NO).ljust(len(each.name)) for each in found)
        print(f"{type(item).__name__:<{width}}{marks}  {_machines(type(item))}")
    return HELD


def _machines(kind: type) -> str:
    """A write is the list's, and what clients ask is the store's: for the others it is left out, wherever they run."""
    of = [name for name in MACHINES if not issubclass(kind, ALIEN[name])]
    return "any" if len(of) == len(MACHINES) else ", ".join(of)


_YES: Final = "yes"
_NO: Final = "-"


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


# -- one script in all ---------------------------------------------------------------------------------


def _compare(arguments: argparse.Namespace) -> int:
    def begins(name: str) -> None:
        if sys.stderr.isatty():
            print(f"in the world of {name} ...", file=sys.stderr)

    found = compare(chosen(arguments), arguments.only, begins=begins)
    code = HELD if found.held else VIOLATED
    if arguments.json:
        outcomes = {name: {**outcome_as_json(outcome), "script": None} for name, outcome in found.outcomes}
        made = {"agree": found.agree, "left_out": found.left_out, "worlds": outcomes}
        print(json.dumps(made))
        return code
    print(describe(found.script))
    if found.left_out:
        print(f"left out, as not all worlds can do it: {', '.join(found.left_out)}")
    for name, outcome in found.outcomes:
        print(f"\n{name}: {verdict(outcome)}")
    print()
    for difference in found.differences():
        print(f"they differ: {difference}")
    if found.agree:
        print("they agree")
    return code
