"""The options that several commands share, each declared once, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from harness.cli.root import near
from harness.faults import MACHINES
from harness.mutants.table import BY_NAME
from harness.profiles import ALL
from harness.profiles import BY_NAME as PROFILES
from harness.script.names import is_users
from harness.worlds import WORLDS
from zab.cli.kit.options import Seconds

Option: TypeAlias = Callable[[Any], Any]
argument = click.argument
NATURAL: Final = click.IntRange(0)
POSITIVE: Final = click.IntRange(1)
SECONDS: Final = Seconds(zero=True, most=1e9)
USUAL: Final = "usual"
FILE: Final = click.Path(path_type=Path)


def option(name: str, **more: Any) -> Option:
    if isinstance(more.get("type"), click.IntRange):
        more.setdefault("metavar", "N")
    return click.option(name, **more)


def _machine(text: str) -> str:
    if text in MACHINES or is_users(text):
        return text
    known = f"{', '.join(MACHINES)}, and your own as module:Class, such as examples.bank:Bank"
    raise click.BadParameter(f"there is no {text!r}{near(text, MACHINES)}; there are {known}")


def _mutant(text: str) -> str:
    if text not in BY_NAME:
        raise click.BadParameter(f"there is no {text!r}{near(text, BY_NAME)}; `mutants --list` has all")
    return text


def _profile(text: str) -> str:
    if text == USUAL:
        return ""
    if text and text not in (*PROFILES, ALL):
        raise click.BadParameter(f"there is no {text!r}{near(text, (*PROFILES, ALL))}; --help has all")
    return text


def sizes(text: str | tuple[int, ...]) -> tuple[int, ...]:
    """Convert `3,5` to (3, 5)."""
    if isinstance(text, tuple):
        return text
    return tuple(int(POSITIVE.convert(part, None, None)) for part in text.split(","))  # type: ignore[arg-type]


# -- the script ------------------------------------------------------------------------------------------


def seed(*, required: bool = False, **more: Any) -> Option:
    return option("--seed", type=NATURAL, required=required, help="Generate the script from this number.", **more)


def machine(default: str | None, usual: str = "") -> Option:
    return option(
        "--machine",
        type=_machine,
        default=default,
        show_default=default is not None,
        metavar="NAME",
        help=f"The system under test{usual}: list, the consensus alone; store, the coordination store with clients; "
        "controller and partitions, the store with brokers; or a state machine of your own as module:Class, imported "
        "from the working directory or from what is installed, such as examples.bank:Bank. The class needs prepare, "
        "apply, snapshot and restore (see zab.Machine); its model is its attribute `model`, or the only class of its "
        "module with initial and step; its requests are drawn by `requests` of the class, of the model or of the "
        "module.",
    )


def profile(default: str | None = "", usual: str = "") -> Option:
    return option(
        "--profile",
        type=_profile,
        default=default,
        metavar="NAME",
        help=f"Generate scripts that lead to one situation, of a size of their own{usual}: {', '.join(PROFILES)}; "
        "all: half of the scripts as usual, the others by each profile in turn; usual: no profile.",
    )


def world(usual: str = "cores; stack for a machine of your own") -> Option:
    return option(
        "--world",
        type=click.Choice(WORLDS),
        help=f"Where to run it [default: {usual}]; `zab-harness worlds` describes them.",
    )


MUTANT: Final = option("--mutant", type=_mutant, metavar="NAME", help="Plant this bug (see `mutants --list`).")
SIZES: Final = (
    option("--observers", type=NATURAL, default=None, help="The number of observers [default: sometimes one]."),
    option("--faults", type=NATURAL, default=20, show_default=True, help="The most faults of a script."),
    option("--ops", type=NATURAL, default=100, show_default=True, help="The most operations of a script."),
    option(
        "--together",
        type=POSITIVE,
        default=1,
        show_default=True,
        metavar="N",
        help="For the machine list, the most transactions that are requested at one moment; they are one batch.",
    ),
    option(
        "--length-ms",
        type=POSITIVE,
        default=3_000,
        show_default=True,
        help="Virtual time until all faults end and the servers must recover.",
    ),
)
_FROM_SEED: Final = (
    option("--servers", type=POSITIVE, default=3, show_default=True, help="The number of voters."),
    MUTANT,
    *SIZES,
    machine(MACHINES[0]),
    profile(),
)
SCRIPT_FROM_SEED: Final = (seed(required=True), *_FROM_SEED)
SCRIPT: Final = (
    seed(),
    option("--script", type=FILE, metavar="FILE", help="Read the script from this file; - is stdin."),
    *_FROM_SEED,
)

# -- the run ---------------------------------------------------------------------------------------------

PLACE: Final = (
    world(),
    option(
        "--scale",
        type=click.FloatRange(0.1, 100),
        default=1.0,
        show_default=True,
        metavar="X",
        help="In the world processes, the real milliseconds of one millisecond of the script.",
    ),
    option(
        "--netns",
        is_flag=True,
        help="In the world processes, give each server a network namespace: partitions drop packets. Needs root.",
    ),
)
DIAGRAM: Final = option(
    "--diagram",
    type=FILE,
    metavar="FILE",
    help="Draw the run there, as HTML (see `show`). The world processes records no events, so it cannot be drawn.",
)


def output(about: str, default: str | None = None, metavar: str = "FILE") -> Option:
    path = None if default is None else Path(default)
    return option("--output", type=FILE, metavar=metavar, default=path, show_default=default is not None, help=about)


def keep(which: str) -> Option:
    about = f"Store {which} in this folder, with the facts about its failure, for tests to replay."
    return option("--keep", type=FILE, metavar="DIR", help=about)


def trace(default: int) -> Option:
    return option(
        "--trace",
        type=NATURAL,
        default=default,
        show_default=True,
        metavar="N",
        help="Print the last N events; of an invalid run, `run` and `replay` print those that concern the verdict.",
    )


def json_output(about: str = "Print the result as JSON.") -> Option:
    return option("--json", is_flag=True, help=about)


# -- campaigns -------------------------------------------------------------------------------------------

SEED_BASE: Final = option("--seed-base", type=NATURAL, default=0, show_default=True, help="The first seed.")


def stop_after(more: str = "") -> Option:
    return option(
        "--stop-after",
        type=NATURAL,
        default=10,
        show_default=True,
        metavar="N",
        help=f"Stop at the Nth failure; 0: never.{more}",
    )


CAMPAIGN: Final = (
    argument("folder", type=FILE, metavar="DIR"),
    option("--campaign", metavar="NAME", help="The campaign, by the beginning of its name, if DIR has several."),
)
