"""The world in which a command runs its script, and the picture of the run."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from harness.cli.common import Misuse
from harness.outcome import Outcome
from harness.report.diagram import page
from harness.run.replay_line import replay_line
from harness.run.worlds import world_for
from harness.worlds import World


def chosen_world(arguments: argparse.Namespace, machine: str) -> World:
    """Return the world of `--world`, or the usual one of the machine."""
    found = world_for(machine, arguments.world)
    if found.name != "processes":
        if arguments.netns:
            raise Misuse("--netns is for the world of processes: nowhere else is there a network")
        return found
    run: Any = found.run
    if not arguments.netns:
        return evolve(found, run=partial(run, scale=arguments.scale, mutant=arguments.mutant))
    from harness.worlds.processes import netns
    from harness.worlds.processes.world import WITH_SPACES

    why = netns.can_make()
    if why is not None:
        raise Misuse(f"--netns: {why}")
    return evolve(WITH_SPACES, run=partial(run, scale=arguments.scale, mutant=arguments.mutant, spaces=True))


def must_be_recorded(there: World) -> None:
    """Refuse a picture before anything runs if the world keeps no record: it would show servers that do nothing."""
    if not there.recorded:
        raise Misuse(
            f"the world {there.name} records no acts, so there is nothing to draw; "
            "the worlds of cores and stack keep one"
        )


def draw(path: Path, outcome: Outcome, world: str, mutant: str | None, script_file: Path | None = None) -> None:
    assert outcome.trace is not None
    line = replay_line(outcome.script, world=world, mutant=mutant, file=script_file)
    try:
        path.write_text(page(outcome, line))
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}") from error
