"""The command. Every subcommand is a module of this package, loaded when it is asked for.

Such a module has `add(parser)`, which says what it takes, and `act(arguments)`, which does it and returns the exit
code; it may have `left(arguments)`, which says what is left of it when it was told to end.

Results go to stdout, progress to stderr. Exit 0: every promise was kept. 1: one was broken. 2: misused.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Final

from harness.cli.common import MISUSED, Misuse, Parser, near
from harness.script.checks import ScriptError

COMMANDS: Final = {
    "drill": "a first look: the leader of three servers is cut off, and it is drawn",
    "run": "draw a script from a seed and run it",
    "replay": "run a script again, from its seed or from a file",
    "show": "draw a run: servers as lines, messages as arrows, faults as shading",
    "shrink": "make a failing script as small as it can be",
    "check": "judge a stored history of the store",
    "worlds": "where a script can be run, and what each world can do; one script in all of them",
    "fuzz": "run many scripts and collect what fails; with --output, as a campaign that is kept",
    "analyze": "sum a campaign up, and write a report",
    "report": "write the report of an analysed campaign again",
    "compare": "say what changed between two campaigns",
    "crash-points": "crash at each call to a disk in turn, and check every history",
    "mutants": "put known bugs back and see whether the checkers notice",
    "explore": "visit every state of three servers within small bounds",
}

_DESCRIPTION: Final = """\
Breaks the system on purpose, and says whether a promise was broken.

A run is a function of its script: servers, speed, settings, what clients ask, and what goes wrong. A script
comes from a seed, or from a file. In virtual time the same script gives the same run, to the last act, in any process.
"""
_EXAMPLES: Final = """\
examples:
  zab-harness run --seed 42                      one run, what happened in it, and the verdict
  zab-harness run --seed 42 --world stack        the same script, with real drivers on virtual time
  zab-harness run --seed 42 --world processes    the same script, with real servers, in real time
  zab-harness worlds                             what each world can do
  zab-harness run --seed 42 --print > s.json     its script, to be edited and replayed
  zab-harness replay --script s.json --trace 50  the last fifty acts before the end
  zab-harness show --seed 42 --output run.html   the run as a picture, for a browser
  zab-harness fuzz --runs 10000 --jobs 2         search; each failure prints the line that repeats it
  zab-harness fuzz --runs 100000 --output found  the same with Spark, and every run becomes a row
  zab-harness analyze found                      what the rows say, as a page and as tables
  zab-harness fuzz --machine examples.bank:Bank --runs 200   a state machine of your own, under all faults
  zab-harness shrink --seed 42                   the smallest script that fails in the same way
  zab-harness crash-points --machine store       crash before each write, sync and rename in turn
  zab-harness mutants                            put known bugs back, one at a time: does anybody notice?
  zab-harness explore --transactions 1           every order of events of three servers, within small bounds

exit status: 0 every promise was kept; 1 one was broken; 2 misused
"""


_EXTRA_OF: Final = (
    {"hypothesis": "harness"}
    | dict.fromkeys(("matplotlib", "pandas", "py4j", "pyarrow", "pyspark"), "spark")
    | dict.fromkeys(("cramjam", "google_crc32c", "prometheus_client"), "harness,broker")
)
"""The extra that installs a module, by the module that is missing."""


def _overview() -> Parser:
    parser = Parser(
        prog="zab-harness",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('zab')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        commands.add_parser(name, help=about, add_help=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        _overview().print_help(sys.stderr)
        return MISUSED
    if given[0] not in COMMANDS:
        if given[0].startswith("-"):
            _overview().parse_args(given)  # shows help, or says what is wrong, and exits
        _overview().error(f"there is no command {given[0]!r}{near(given[0], COMMANDS)}")
    try:
        return _done(*given)
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        missing = f"zab-harness {given[0]}: this needs {error.name}, which is not installed"
        print(f"{missing}. Try: pip install '.[{extra}]' where the source is, or 'zab[{extra}]'", file=sys.stderr)
        return MISUSED


def _done(name: str, *rest: str) -> int:
    command = import_module(f"harness.cli.{name.replace('-', '_')}")
    parser = Parser(
        prog=f"zab-harness {name}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add(parser)
    wanted = parser.parse_args(rest)
    told: list[int] = []
    try:
        with _told_to_end(told):
            code: int = command.act(wanted)
        sys.stdout.flush()
    except (Misuse, ScriptError) as error:
        print(f"{error}", file=sys.stderr)
        return MISUSED
    except BrokenPipeError:  # whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return MISUSED
    except KeyboardInterrupt:
        print("told to end" if told else "interrupted", file=sys.stderr)
        if hasattr(command, "left"):
            print(command.left(wanted), file=sys.stderr)
        return 143 if told else 130
    return code


@contextmanager
def _told_to_end(told: list[int]) -> Iterator[None]:
    """By SIGTERM, whatever is under way ends as it would for its user at the keyboard; `told` remembers that.

    It is left to whoever hears the keyboard at that moment: in the midst of Trio's own code nothing may be raised,
    and Trio knows when. It listens only where Python does as usual, which who is in the background of a script
    does not.
    """

    def end(number: int, frame: FrameType | None) -> None:
        told.append(number)
        hears = signal.getsignal(signal.SIGINT)
        assert callable(hears)
        hears(signal.SIGINT, frame)

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
