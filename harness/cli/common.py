"""The common parts of commands: files, the chosen script and world, the verdict as text and as JSON, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import asdict, evolve

from harness.draw import JOINERS
from harness.faults import Script
from harness.mutants.edit import Stale
from harness.outcome import Outcome
from harness.profiles import ALL, drawn
from harness.profiles import BY_NAME as PROFILES
from harness.report.diagram import page
from harness.run.plan import world_for
from harness.run.regressions import script_in
from harness.run.replay_line import replay_line
from harness.run.runner import with_bug
from harness.script.checks import SERVERS_MAX
from harness.scripts import ScriptError, to_json
from harness.worlds import World
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted

SCRIPT_BYTES_MAX: Final = 4 << 20
HISTORY_BYTES_MAX: Final = 64 << 20
"""The limit of a history. A run of a campaign writes less than one MiB, the longest allowed script a few MiB."""


def text_of(path: Path, most: int) -> str:
    """Read the file, or stdin for `-`, but not more than `most` bytes."""
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with path.open("rb") as file:
                data = file.read(most + 1)
        if len(data) > most:
            raise Misused(f"{path}: the file has more than {most >> 20} MiB, the limit for such files")
        return data.decode()
    except UnicodeDecodeError as error:
        raise Misused(f"{path}: byte {error.start} is not UTF-8") from error
    except OSError as error:
        raise Misused(f"{path}: {error.strerror or error}") from error


# -- the script and the world ----------------------------------------------------------------------------


def chosen(arguments: Arguments) -> Script:
    path: Path | None = getattr(arguments, "script", None)
    if (path is None) == (arguments.seed is None):
        raise Misused("give either --seed or --script")
    if path is not None:
        text = text_of(path, SCRIPT_BYTES_MAX)
        try:
            return script_in(text)
        except ScriptError as error:
            raise Misused(f"{path}: {error}") from error
        except RecursionError as error:
            raise Misused(f"{path}: lists are nested too deeply for a script") from error
    check_size(arguments.servers, arguments.observers)
    check_profile(arguments.profile, arguments.machine)
    same = ("observers", "faults", "ops", "length_ms", "machine", "together")
    given = {name: getattr(arguments, name) for name in same}
    return drawn(arguments.profile, arguments.seed, voters=arguments.servers, **given)


def check_profile(profile: str, machine: str) -> None:
    if profile and profile != ALL and PROFILES[profile].machine != machine:
        raise Misused(f"the profile {profile!r} is for --machine {PROFILES[profile].machine}, not for {machine}")


def check_size(voters: int, observers: int | None) -> None:
    servers, most = voters + (observers or 0), SERVERS_MAX - JOINERS
    if servers > most:
        raise Misused(f"{servers} servers are too many to generate a script for; the limit is {most}")


def with_mutant(arguments: Arguments, act: Callable[[], int]) -> int:
    """Plant the mutant while `act` runs. In the world processes only the servers have it; here its edits must apply."""
    if arguments.mutant is None:
        return act()
    try:
        with with_bug(arguments.mutant):
            if getattr(arguments, "world", None) != "processes":
                return act()
    except Stale as stale:
        raise Misused(f"{arguments.mutant} does not match the code any more: {stale}") from stale
    return act()


def chosen_world(arguments: Arguments, machine: str) -> World:
    """Return the world of `--world`, or the usual one of the machine, with the options of the world processes."""
    found = world_for(machine, arguments.world)
    if found.name != "processes":
        if arguments.netns:
            raise Misused("--netns is for the world processes: the other worlds do not use the network of this machine")
        return found
    run: Any = found.run
    if not arguments.netns:
        return evolve(found, run=partial(run, scale=arguments.scale, mutant=arguments.mutant))
    from harness.worlds.processes import netns
    from harness.worlds.processes.world import WITH_SPACES

    why = netns.can_make()
    if why is not None:
        raise Misused(f"--netns: {why}")
    return evolve(WITH_SPACES, run=partial(run, scale=arguments.scale, mutant=arguments.mutant, spaces=True))


# -- pictures --------------------------------------------------------------------------------------------


def check_recorded(there: World) -> None:
    """Refuse a picture before anything runs if the world records no events."""
    if not there.recorded:
        raise Misused(
            f"the world {there.name} records no events, so its runs cannot be drawn; the worlds cores and stack do"
        )


def draw(path: Path, outcome: Outcome, world: str, mutant: str | None, **more: Any) -> None:
    assert outcome.trace is not None
    try:
        path.write_text(page(outcome, replay_line(outcome.script, world=world, mutant=mutant), **more))
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from error


# -- the outcome -----------------------------------------------------------------------------------------


def verdict(outcome: Outcome) -> str:
    numbers = (
        f"{counted(outcome.events, 'event')}, {outcome.committed} committed, {outcome.acknowledged} acknowledged,"
        f" {counted(outcome.elections, 'epoch')}"
    )
    if outcome.valid:
        return f"valid: {numbers}; all equal {outcome.recovered_ms} ms after the last fault"
    if outcome.unknown:
        return f"UNKNOWN after {outcome.at_ms} ms: {outcome.what}\n{numbers}"
    history = f"\n\n{outcome.explanation}" if outcome.explanation else ""
    return f"VIOLATED after {outcome.at_ms} ms: {outcome.invariant}: {outcome.what}\n{numbers}{history}"


def outcome_as_json(outcome: Outcome) -> dict[str, object]:
    names = ("valid", "unknown", "invariant", "what", "explanation", "at_ms", "events", "committed", "acknowledged")
    return {name: getattr(outcome, name) for name in names} | {
        "epochs": outcome.elections,
        "recovered_ms": outcome.recovered_ms,
        "counts": dict(outcome.counts),
        "outages": [asdict(each) for each in outcome.outages],
        "recoveries": [asdict(each) for each in outcome.recoveries],
        "script": to_json(outcome.script),
    }


# -- progress --------------------------------------------------------------------------------------------


class Progress:
    """A line on stderr, if that is a terminal, once a command has run for two seconds."""

    def __init__(self, total: int | None, what: str) -> None:
        """`total`: None if it is unknown."""
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
