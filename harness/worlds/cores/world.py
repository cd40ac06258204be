"""The simulator of the system under test `list`, and the world `cores` for the commands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any, ClassVar, Final

from harness import worlds
from harness.checkers import ALL, Checker
from harness.faults import BROKER_OPS, PARTITION_OPS, Fault, JoinGroup, Op, Script
from harness.outcome import Outcome
from harness.script.constants import in_force
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server
from harness.worlds.cores.simulator import Simulator
from harness.worlds.cores.workload import Workload

PERIOD_US: Final = 20_000
"""The shortest period between two fills of the loop."""
CLIENT_US: Final = 2_000
"""The addition to the period for each client: more clients write less often."""


class ClosedLoop:
    """Clients that keep a number of writes outstanding at the leader from the beginning to the healing.

    Timers that run only under steady load expire in no other script. Each client thinks for a moment before it writes
    again, so that almost always an earlier write is being acknowledged while a later one is under way.
    """

    def __init__(self, world: Simulator, outstanding: int) -> None:
        self._world: Any = world
        self._outstanding = outstanding
        self._random = Random(f"{world.script.seed}/closed loop").random
        self._period_us = PERIOD_US + CLIENT_US * outstanding

    def fill(self, _: object, __: object) -> None:
        """Write at each server that believes it leads, until so many writes are outstanding there."""
        world = self._world
        if world.liveness.began:
            return
        for server in world.workload.believers():
            epoch = server.node.epoch
            missing = self._outstanding - sum(zxid >> 32 == epoch for zxid in server.submitted)
            for _each in range(missing):
                world.push(world.now + int(self._random() * self._period_us), self._write, server, epoch)
        world.push(world.now + self._period_us, self.fill, None, None)

    def _write(self, server: Any, epoch: int) -> None:
        world = self._world
        if not world.liveness.began and server in world.workload.believers() and server.node.epoch == epoch:
            world.workload.write_at(server, 1, 0)


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
