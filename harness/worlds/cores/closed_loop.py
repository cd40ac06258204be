"""A closed loop: clients keep a number of writes outstanding at the leader from the beginning to the healing.

Timers that run only under steady load expire in no other script. Each client thinks for a moment before it writes
again, so that almost always an earlier write is being acknowledged while a later one is under way.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from harness.worlds.cores.simulator import Simulator

PERIOD_US: Final = 20_000
"""The shortest period between two fills of the loop."""
CLIENT_US: Final = 2_000
"""The addition to the period for each client: more clients write less often."""


class ClosedLoop:
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
