"""The options that several commands share, and the types of their values."""

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


def option(name: str, about: str, kind: Any = None, default: Any = None, **more: Any) -> Option:
    """`kind` is a type of click. A default is shown in the help."""
    if "metavar" not in more:
        number = isinstance(kind, click.IntRange)
        more["metavar"] = "N" if number else "S" if kind is SECONDS else "FILE" if kind is FILE else None
    if default is not None:
        more = {"default": default, "show_default": default != "", **more}
    return click.option(name, type=kind, help=about, **more)


def flag(name: str, about: str) -> Option:
    return click.option(name, is_flag=True, help=about)


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


def seed(*, required: bool = False) -> Option:
    return option("--seed", "Generate the script from this number.", NATURAL, required=required)


def machine(default: str | None, usual: str = "") -> Option:
    return option(
        "--machine",
        f"The system under test{usual}: list, the consensus alone; store, the coordination store with clients; "
        "controller and partitions, the store with brokers; or a state machine of your own as module:Class, imported "
        "from the working directory or from what is installed, such as examples.bank:Bank. The class needs prepare, "
        "apply, snapshot and restore (see zab.Machine); its model is its attribute `model`, or the only class of its "
        "module with initial and step; its requests are drawn by `requests` of the class, of the model or of the "
        "module.",
        _machine,
        default,
        metavar="NAME",
    )


def profile(default: str | None = "", usual: str = "") -> Option:
    return option(
        "--profile",
        f"Generate scripts that lead to one situation, of a size of their own{usual}: {', '.join(PROFILES)}; "
        "all: half of the scripts as usual, the others by each profile in turn; usual: no profile.",
        _profile,
        default,
        metavar="NAME",
        show_default=False,
    )


def world(usual: str = "cores; stack for a machine of your own") -> Option:
    return option(
        "--world", f"Where to run it [default: {usual}]; `zab-harness worlds` describes them.", click.Choice(WORLDS)
    )


MUTANT: Final = option("--mutant", "Plant this bug (see `mutants --list`).", _mutant, metavar="NAME")
SIZES: Final = (
    option("--observers", "The number of observers [default: sometimes one].", NATURAL),
    option("--faults", "The most faults of a script.", NATURAL, 20),
    option("--ops", "The most operations of a script.", NATURAL, 100),
    option(
        "--together",
        "For the machine list, the most transactions that are requested at one moment; they are one batch.",
        POSITIVE,
        1,
    ),
    option("--length-ms", "Virtual time until all faults end and the servers must recover.", POSITIVE, 3_000),
)
_FROM_SEED: Final = (
    option("--servers", "The number of voters.", POSITIVE, 3),
    MUTANT,
    *SIZES,
    machine(MACHINES[0]),
    profile(),
)
SCRIPT_FROM_SEED: Final = (seed(required=True), *_FROM_SEED)
SCRIPT: Final = (
    seed(),
    option("--script", "Read the script from this file; - is stdin.", FILE),
    *_FROM_SEED,
)

# -- the run ---------------------------------------------------------------------------------------------

PLACE: Final = (
    world(),
    option(
        "--scale",
        "In the world processes, the real milliseconds of one millisecond of the script.",
        click.FloatRange(0.1, 100),
        1.0,
        metavar="X",
    ),
    flag(
        "--netns", "In the world processes, give each server a network namespace: partitions drop packets. Needs root."
    ),
)
DIAGRAM: Final = option(
    "--diagram",
    "Draw the run there, as HTML (see `show`). The world processes records no events, so it cannot be drawn.",
    FILE,
)


def output(about: str, default: str | None = None, metavar: str = "FILE") -> Option:
    path = None if default is None else Path(default)
    return option("--output", about, FILE, path, metavar=metavar)


def keep(which: str) -> Option:
    about = f"Store {which} in this folder, with the facts about its failure, for tests to replay."
    return option("--keep", about, FILE, metavar="DIR")


def trace(default: int) -> Option:
    return option(
        "--trace",
        "Print the last N events; of an invalid run, `run` and `replay` print those that concern the verdict.",
        NATURAL,
        default,
    )


def json_output(about: str = "Print the result as JSON.") -> Option:
    return flag("--json", about)


# -- campaigns -------------------------------------------------------------------------------------------

SEED_BASE: Final = option("--seed-base", "The first seed.", NATURAL, 0)


def stop_after(more: str = "") -> Option:
    return option("--stop-after", f"Stop at the Nth failure; 0: never.{more}", NATURAL, 10)


CAMPAIGN: Final = (
    argument("folder", type=FILE, metavar="DIR"),
    option("--campaign", "The campaign, by the beginning of its name, if DIR has several.", metavar="NAME"),
)
