"""The common part of several commands: reading the script, printing the outcome, showing the progress."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

from attrs import asdict

from harness.draw import JOINERS
from harness.faults import MACHINES, Script
from harness.mutants.edit import Stale, planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.profiles import ALL, drawn
from harness.profiles import BY_NAME as PROFILES
from harness.run.regressions import script_in
from harness.script.checks import SERVERS_MAX
from harness.script.names import is_users
from harness.scripts import ScriptError, to_json
from harness.worlds import WORLDS
from zab.core.plurals import counted

HELD, VIOLATED, MISUSED = 0, 1, 2


class Parser(argparse.ArgumentParser):
    """What is wrong is one line, and where help is another: a usage of ten lines would stand in between."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f"{self.prog}: {message}\nsee {self.prog} --help\n")


def near(name: str, names: Iterable[str]) -> str:
    """Some of the names that are like this one."""
    by_small = {each.lower(): each for each in names}
    found = [by_small[each] for each in get_close_matches(name.lower(), by_small, 5, 0.5)]
    return f"; near it: {', '.join(found)}" if found else ""


class Misuse(Exception):
    """The command was called in a way that makes no sense. The message is for the caller."""


# -- arguments -----------------------------------------------------------------------------------------


def script_from_seed_arguments(parser: argparse.ArgumentParser, *, needed: bool) -> None:
    parser.add_argument("--seed", type=natural, required=needed, help="draw the script from this number")
    parser.add_argument("--servers", type=positive, default=3, help="voters (default 3); a file says it itself")
    mutant_argument(parser)
    size_arguments(parser)


def script_arguments(parser: argparse.ArgumentParser) -> None:
    script_from_seed_arguments(parser, needed=False)
    parser.add_argument("--script", type=Path, metavar="FILE", help="take the script from this file; - is stdin")


def size_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--observers", type=natural, default=None, help="observers (default: sometimes one)")
    parser.add_argument("--faults", type=natural, default=20, help="at most so many faults (default 20)")
    parser.add_argument("--ops", type=natural, default=100, help="at most so many operations (default 100)")
    parser.add_argument(
        "--machine",
        type=_machine,
        default=MACHINES[0],
        metavar="NAME",
        help=f"the system under test: {', '.join(MACHINES)} (default {MACHINES[0]}), or a state machine of your own as "
        "module:Class, imported from the working directory or from what is installed, such as examples.bank:Bank. "
        "The class needs prepare, apply, snapshot and restore (see zab.Machine); its model is its attribute `model`, "
        "or the only class of its module with initial and step; its requests are drawn by `requests` of the class, of "
        "the model or of the module",
    )
    parser.add_argument(
        "--together",
        type=positive,
        default=1,
        metavar="N",
        help="of a list's transactions at most so many are asked for at one moment (default 1)",
    )
    parser.add_argument(
        "--profile",
        type=_profile,
        default="",
        metavar="NAME",
        help="draw scripts that lead to one situation, of a size of their own: "
        f"{', '.join(PROFILES)}; all: half of them as usual, the others by each in turn",
    )
    parser.add_argument(
        "--length-ms", type=positive, default=3_000, help="virtual time before all is healed (default 3000)"
    )


def world_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world",
        choices=WORLDS,
        help=f"where to run it (default {usual_worlds()}); `zab-harness worlds` says what they are",
    )
    parser.add_argument(
        "--scale",
        type=scale,
        default=1.0,
        metavar="X",
        help="in the world of processes, a millisecond of the script takes X real ones (default 1)",
    )
    parser.add_argument(
        "--netns",
        action="store_true",
        help="in the world of processes, give each server a network namespace of its own: partitions drop packets. "
        "Needs root",
    )


def run_arguments(parser: argparse.ArgumentParser) -> None:
    world_arguments(parser)
    parser.add_argument(
        "--trace",
        type=natural,
        default=0,
        metavar="N",
        help="show the last N acts; of a violation those that concern what the verdict names",
    )
    parser.add_argument(
        "--every-act", action="store_true", help="with --trace: also of a violation the last N of all acts"
    )
    parser.add_argument("--hash", action="store_true", help="print the hash of everything that happened")
    parser.add_argument("--history", type=Path, metavar="FILE", help="store what the clients saw here (see `check`)")
    diagram_argument(parser)
    parser.add_argument("--print", action="store_true", help="print the script as JSON, and do not run it")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def diagram_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--diagram", type=Path, metavar="FILE", help="draw the run there, as HTML (see `show`)")


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def mutant_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mutant", type=_mutant, metavar="NAME", help="with this bug put back (see `mutants --list`)")


def usual_worlds() -> str:
    return f"{WORLDS[0]}; stack for a machine of your own"


def _machine(text: str) -> str:
    if text in MACHINES or is_users(text):
        return text
    known = f"{', '.join(MACHINES)}, and your own as module:Class, such as examples.bank:Bank"
    raise argparse.ArgumentTypeError(f"there is no {text!r}{near(text, MACHINES)}; there are {known}")


def _mutant(text: str) -> str:
    if text not in BY_NAME:
        raise argparse.ArgumentTypeError(f"there is no {text!r}{near(text, BY_NAME)}; `mutants --list` has all")
    return text


def _profile(text: str) -> str:
    if text and text not in (*PROFILES, ALL):
        raise argparse.ArgumentTypeError(f"there is no {text!r}{near(text, (*PROFILES, ALL))}; --help has all")
    return text


def natural(text: str) -> int:
    value = whole(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def positive(text: str) -> int:
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def scale(text: str) -> float:
    value = number(text)
    if not 0.1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 100")
    return value


def seconds(text: str) -> float:
    value = number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def sizes(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


# -- files ---------------------------------------------------------------------------------------------

SCRIPT_BYTES_MAX: Final = 4 << 20
HISTORY_BYTES_MAX: Final = 64 << 20
"""A run of a campaign leaves less than one MiB, the longest that a script allows a few."""


def text_of(path: Path, most: int) -> str:
    """What the file holds, or stdin if it is called `-`. What is too large is not read to its end."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with path.open("rb") as file:
                data = file.read(most + 1)
        if len(data) > most:
            raise Misuse(f"{path}: more than {most >> 20} MiB, which no such file needs")
        return data.decode()
    except UnicodeDecodeError as error:
        raise Misuse(f"{path}: byte {error.start} is no text") from error
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror or error}") from error


# -- a script ------------------------------------------------------------------------------------------


def chosen(arguments: argparse.Namespace) -> Script:
    path: Path | None = getattr(arguments, "script", None)
    if (path is None) == (arguments.seed is None):
        raise Misuse("say which script: either --seed or --script")
    if path is not None:
        text = text_of(path, SCRIPT_BYTES_MAX)
        try:
            return script_in(text)
        except ScriptError as error:
            raise Misuse(f"{path}: {error}") from error
        except RecursionError as error:
            raise Misuse(f"{path}: lists within lists within lists; a script is flat") from error
    if arguments.servers + (arguments.observers or 0) > SERVERS_MAX - JOINERS:
        raise Misuse(too_many_servers(arguments.servers, arguments.observers))
    must_fit(arguments.profile, arguments.machine)
    return drawn(
        arguments.profile,
        arguments.seed,
        voters=arguments.servers,
        observers=arguments.observers,
        faults=arguments.faults,
        ops=arguments.ops,
        length_ms=arguments.length_ms,
        machine=arguments.machine,
        together=arguments.together,
    )


def must_fit(profile: str, machine: str) -> None:
    """A profile leads to a situation of one machine."""
    if profile and profile != ALL and PROFILES[profile].machine != machine:
        raise Misuse(f"the profile {profile!r} is for --machine {PROFILES[profile].machine}, and not for {machine}")


def too_many_servers(voters: int, observers: int | None) -> str:
    most = SERVERS_MAX - JOINERS
    return f"{voters + (observers or 0)} servers are too many to draw a script for; there may be {most} at most"


def with_mutant(arguments: argparse.Namespace, act: Callable[[], int]) -> int:
    """In the world of processes it is put back in the servers, and not in who judges them: here it need only fit."""
    if arguments.mutant is None:
        return act()
    try:
        with planted(BY_NAME[arguments.mutant].edits):
            if getattr(arguments, "world", None) != "processes":
                return act()
    except Stale as stale:
        raise Misuse(f"{arguments.mutant} does not fit the code any more: {stale}") from stale
    return act()


# -- what became of it ---------------------------------------------------------------------------------


def verdict(outcome: Outcome) -> str:
    numbers = (
        f"{counted(outcome.events, 'event')}, {outcome.committed} committed, {outcome.acknowledged} acknowledged,"
        f" {counted(outcome.elections, 'epoch')}"
    )
    if outcome.held:
        return f"held: {numbers}; all equal {outcome.recovered_ms} ms after the last fault"
    if outcome.undecided:
        return f"UNDECIDED after {outcome.at_ms} ms: {outcome.what}\n{numbers}"
    told = f"\n\n{outcome.explanation}" if outcome.explanation else ""
    return f"VIOLATED after {outcome.at_ms} ms: {outcome.promise}: {outcome.what}\n{numbers}{told}"


def outcome_as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "held": outcome.held,
        "undecided": outcome.undecided,
        "promise": outcome.promise,
        "what": outcome.what,
        "explanation": outcome.explanation,
        "at_ms": outcome.at_ms,
        "events": outcome.events,
        "committed": outcome.committed,
        "acknowledged": outcome.acknowledged,
        "epochs": outcome.elections,
        "recovered_ms": outcome.recovered_ms,
        "counts": dict(outcome.counts),
        "outages": [asdict(each) for each in outcome.outages],
        "recoveries": [asdict(each) for each in outcome.recoveries],
        "script": to_json(outcome.script),
    }


# -- progress ------------------------------------------------------------------------------------------


class Progress:
    """A line on stderr, when that is a terminal, for whatever takes more than two seconds."""

    def __init__(self, total: int | None, what: str) -> None:
        """`total`: None where nobody knows how many there will be."""
        self._of = what if total is None else f"of {total} {what}"
        self._began = self._shown = time.monotonic()
        self._steps = 0
        self._visible = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def step(self) -> None:
        self._steps += 1
        self.show(self._steps, "")

    def show(self, done: int, words: str) -> None:
        now = time.monotonic()
        if self._visible and now - self._began > 2 and now - self._shown > 0.2:
            self._shown = now
            sys.stderr.write(f"\r\x1b[K{done} {self._of}, {now - self._began:.0f} s {words}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._visible and self._shown != self._began:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
