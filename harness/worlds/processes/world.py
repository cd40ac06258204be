"""The interface of the world of real servers that the commands use."""

from __future__ import annotations

import gc
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
from attrs import evolve

from harness import worlds
from harness.apache_zookeeper import why_not
from harness.exceptions import interrupts_bare
from harness.faults import Fault, Op, Script
from harness.outcome import Outcome
from harness.script.checks import ScriptError
from harness.worlds.processes import nemesis, netns, workload
from harness.worlds.processes.addresses import Addresses, Loopback
from harness.worlds.processes.brokers import workload as brokers
from harness.worlds.processes.cluster import Options, Tell, servers_of
from harness.worlds.processes.proxy import Fabric
from harness.worlds.processes.run import World
from harness.worlds.processes.verdict import outcome_of


def can(item: Fault | Op) -> bool:
    return nemesis.can(item) or workload.can(item) or brokers.can(item)


def tell_on_stderr(words: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def run(
    script: Script,
    *,
    trace: bool = False,
    scale: float = 1.0,
    spaces: bool = False,
    mutant: str | None = None,
    tell: Tell = tell_on_stderr,
) -> Outcome:
    """Run a script without the items that this world cannot carry out. A millisecond of it takes `scale` real ones.

    With `spaces`, each server has a network namespace of its own. `mutant` is a bug to plant in the servers.
    """
    script = (WITH_SPACES if spaces else WORLD).playable(script).script
    if script.knobs.zookeeper_servers and (reason := why_not()):
        raise ScriptError(f"script.knobs.zookeeper_servers: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="zab-processes-"))
    addresses, network = _network(script, spaces=spaces)
    logger = logging.getLogger("zab.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        make, verdict = _of_machine(script)
        world = make(script, folder, addresses, Options(trace, scale, tell, network, mutant))
        with interrupts_bare():
            trio.run(world.main)
        outcome = verdict(world)
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise
    except BaseException as error:
        error.add_note(f"seed {script.seed}, {script.voters} voters; logs and data are in {folder}")
        raise
    finally:
        tell("")
        addresses.close()
        logger.setLevel(level)
        gc.collect()
    if outcome.valid:
        shutil.rmtree(folder)
        return outcome
    return evolve(outcome, place=str(folder), what=f"{outcome.what}; logs and data are in {folder}")


def _of_machine(script: Script) -> tuple[Callable[..., World], Callable[[Any], Outcome]]:
    if script.machine != "partitions":
        return World, outcome_of
    from harness.worlds.processes.brokers.world import BrokersWorld, outcome_of_brokers

    return BrokersWorld, outcome_of_brokers


def _network(script: Script, *, spaces: bool) -> tuple[Addresses, Fabric]:
    random = Random(f"network/{script.seed}")
    if not spaces:
        return Loopback(), Fabric(random)
    made = netns.Namespaces(servers_of(script))
    return made, netns.PacketFabric(random, made)


WORLD: Final = worlds.World(
    "processes",
    "real servers on loopback, real files, signals, a proxy on every link",
    can,
    run,
    ("list", "store", "partitions"),
    regroups=False,
    recorded=False,
)
WITH_SPACES: Final = evolve(WORLD, can=lambda item: can(item) and netns.can(item), machines=("list", "store"))
"""The interface for runs with `spaces`."""
