"""The simulator of the system under test `list`, and the world `cores` for the commands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Final

from harness import worlds
from harness.checkers import ALL, Checker
from harness.faults import BROKER_OPS, PARTITION_OPS, Fault, JoinGroup, Op, Script
from harness.outcome import Outcome
from harness.worlds.cores.closed_loop import ClosedLoop
from harness.worlds.cores.in_force import in_force
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from harness.worlds.cores.workload import Workload


class World(Simulator):
    servers: list[Server]
    server_type: ClassVar[Any] = Server
    nemesis_type = Nemesis
    workload_type = Workload
    liveness_type: ClassVar[Any] = Liveness
    has_quiet_stage = True

    def _prepare(self) -> None:
        super()._prepare()
        if self.script.knobs.closed_loop:
            self.push(0, ClosedLoop(self, self.script.knobs.closed_loop).fill, None, None)


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """Run a script without the items that this world cannot carry out: see `World.playable`."""
    script = WORLD.playable(script).script
    made = simulator_of(script)
    with in_force(script.constants):
        return made(script, trace=trace, checkers=checkers).run()


def world_of(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Simulator:
    """Return the simulator of a script. It runs with the usual constants."""
    return simulator_of(script)(script, trace=trace, checkers=checkers)


def simulator_of(script: Script) -> type[Simulator]:
    """Return the simulator of a script's machine and protocol. Others are not imported."""
    made: Any = World
    if script.machine != "list":
        made = import_module(f"harness.worlds.cores.{script.machine}.world").SIMULATOR
    elif script.knobs.zookeeper_peers:
        made = import_module("harness.worlds.cores.zookeeper_peers").EnsembleOfZookeeper
    simulator: type[Simulator] = made
    return simulator


def can(item: Fault | Op) -> bool:
    if type(item) in Nemesis.KINDS or type(item) in Workload.PERFORM:
        return True
    if isinstance(item, JoinGroup):  # its clients need threads and sockets
        return False
    return isinstance(item, (*worlds.CLIENT_OPS, *BROKER_OPS, *PARTITION_OPS))


WORLD: Final = worlds.World("cores", "the consensus cores alone, turned by hand", can, run)
