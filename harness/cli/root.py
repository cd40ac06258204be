"""The table of commands of `zab-harness`, and how a command is declared."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import FrameType
from typing import Any, Final

import click

from zab.cli.kit.program import LazyCommand, Program
from zab.cli.kit.verb_group import Arguments, params_of

VALID, INVALID, MISUSED = 0, 1, 2
_TABLE: Final = {
    "drill": ("one_run", "a first look: cut off the leader of three servers, and draw the run"),
    "run": ("one_run", "generate a script from a seed, run it, and check it"),
    "replay": ("one_run", "run a script again, from its seed or from a file"),
    "show": ("one_run", "draw a run: a line for each server, arrows for messages, shading for faults"),
    "shrink": ("shrink", "make a failing script as small as possible"),
    "check": ("check", "check a stored history of clients"),
    "worlds": ("worlds", "list the worlds and what each supports; compare one script in all of them"),
    "fuzz": ("fuzz", "run many scripts and collect failures; with --output as a stored campaign"),
    "application": ("application", "run a program of your own, in several instances, under faults"),
    "analyze": ("stored", "analyse a stored campaign, and write its report"),
    "report": ("stored", "write the report of an analysed campaign again"),
    "compare": ("stored", "list what changed from one campaign to another"),
    "crash-points": ("crash_points", "crash at each call to a disk in turn"),
    "mutants": ("mutants", "plant known bugs one at a time: does a checker notice them?"),
    "explore": ("explore", "visit every state of three servers within small bounds"),
}
COMMANDS: Final[Mapping[str, LazyCommand]] = {
    name: LazyCommand(f"harness.cli.{module}:{name.replace('-', '_')}", about)
    for name, (module, about) in _TABLE.items()
}


class _Commands(Program):
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return COMMANDS[name].load() if name in COMMANDS else None

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}{near(args[0], COMMANDS)}", context)
        return super().resolve_command(context, args)


INTERRUPTED: Final = 130
TERMINATED: Final = 143


class Stopped(Exception):
    """The command was stopped by Ctrl-C or SIGTERM."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def _sigterm_as_interrupt(signals: list[int]) -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C is handled at that moment, and append it to `signals`.

    The handler of SIGINT decides when to raise: that of Trio waits until the code of Trio has finished. A shell starts
    background jobs with SIGINT ignored; then Python's default handler is used.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        assert callable(interrupt)
        interrupt(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    keyboard = signal.getsignal(signal.SIGINT)
    if not callable(keyboard):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, keyboard or signal.SIG_DFL)


Act = Callable[[Arguments], int]


def command(
    name: str,
    *options: Callable[[Any], Any],
    stored: Callable[[Arguments], str] | None = None,
) -> Callable[[Act], click.Command]:
    """Make a command of a function from its arguments to the exit status. Its docstring is the help.

    `stored` describes what is stored of the work, if the command is stopped.
    """

    def make(act: Act) -> click.Command:
        def run(**values: object) -> int:
            arguments = Arguments(**values)
            signals: list[int] = []
            try:
                with _sigterm_as_interrupt(signals):
                    return act(arguments)
            except KeyboardInterrupt as stopped:
                lines = ["terminated" if signals else "interrupted"]
                lines += [] if stored is None else [stored(arguments)]
                raise Stopped(TERMINATED if signals else INTERRUPTED, "\n".join(lines)) from stopped

        return click.Command(name, callback=run, params=params_of(*options), help=act.__doc__)

    return make


def near(name: str, names: Any) -> str:
    """Return a hint with the names that resemble this one."""
    by_small = {each.lower(): each for each in names}
    found = [by_small[each] for each in get_close_matches(name.lower(), by_small, 5, 0.5)]
    return f"; near it: {', '.join(found)}" if found else ""


@click.group(
    cls=_Commands, table=COMMANDS, extra="zab[harness]", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="zab", message="%(prog)s %(version)s")
def zab_harness() -> None:
    """Break the system on purpose, and check its invariants.

    A script says how many servers there are, what clients request, and which faults occur when. It is generated from a
    seed, or read from a file. In virtual time a script always gives the same run, to the last event, on any machine.

    \b
    A first look:             zab-harness drill
    One run:                  zab-harness run --seed 42
    the same, real drivers:   zab-harness run --seed 42 --world stack
    the same, real servers:   zab-harness run --seed 42 --world processes
    Its script, to edit:      zab-harness run --seed 42 --print > s.json
    The edited script:        zab-harness replay --script s.json --trace 50
    A picture of the run:     zab-harness show --seed 42 --output run.html
    Search for failures:      zab-harness fuzz --runs 10000
    and store every run:      zab-harness fuzz --runs 100000 --output found
    A report of these:        zab-harness analyze found
    Your own state machine:   zab-harness fuzz --machine examples.bank:Bank --runs 200
    Your own program:         zab-harness application examples.fleet:main --runs 100
    The smallest failure:     zab-harness shrink --seed 42
    Crashes at disk calls:    zab-harness crash-points --machine store
    Test the checkers:        zab-harness mutants
    All orders of events:     zab-harness explore --transactions 1

    Results go to stdout, progress to stderr. Exit status: 0 if every invariant holds; 1 if one is violated, or if a run
    or a history is unknown; 2 for wrong usage; 74 if stdout cannot be written.
    """
