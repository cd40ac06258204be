"""A run with real servers, as the commands see it."""

from __future__ import annotations

import gc
import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

from harness import worlds
from harness.faults import Fault, Op, Script
from harness.outcome import Outcome
from harness.worlds.processes import nemesis, workload
from harness.worlds.processes.places import Loopback
from harness.worlds.processes.run import Tell, World
from harness.worlds.processes.verdict import outcome_of


def can(item: Fault | Op) -> bool:
    return nemesis.can(item) or workload.can(item)


def tell_on_stderr(words: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def run(script: Script, *, trace: bool = False, scale: float = 1.0, tell: Tell = tell_on_stderr) -> Outcome:
    """A millisecond of the script takes `scale` real ones. What this world cannot do is left out of the script."""
    script = WORLD.playable(script).script
    folder = Path(tempfile.mkdtemp(prefix="zab-harness-"))
    places = Loopback()
    logger = logging.getLogger("zab.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        world = World(script, folder, places, trace=trace, scale=scale, tell=tell)
        trio.run(world.main)
        outcome = outcome_of(world)
    except BaseException as error:
        error.add_note(f"seed {script.seed}, {script.voters} voters; logs and data are in {folder}")
        raise
    finally:
        tell("")
        places.close()
        logger.setLevel(level)
        gc.collect()
    if outcome.held:
        shutil.rmtree(folder)
        return outcome
    return evolve(outcome, place=str(folder), what=f"{outcome.what}; logs and data are in {folder}")


WORLD: Final = worlds.World(
    "processes", "real servers on loopback, real files, signals, a proxy on every link", can, run
)
