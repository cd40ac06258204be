"""A simulated cluster of members that replicate a list, and the base class of the other simulated clusters."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.workload import Workload
from harness.worlds.stack.server import Life, Server
from harness.worlds.stack.simulation import Simulation


class AnyServerWorkload(Workload):
    """Submits to the leaders and to one running server in turn: members forward requests to their leader."""

    def believers(self) -> list[CoreServer]:
        running = self.world.running()
        leaders = super().believers()
        other = running[self._number % len(running)] if running else None
        return leaders if other is None or other in leaders else [*leaders, other]


class World(Simulation):
    servers: list[Server]
    server_type = Server
    nemesis_type: ClassVar[Any] = Nemesis
    workload_type: ClassVar[Any] = AnyServerWorkload
    liveness_type: ClassVar[Any] = Liveness

    def life(self, server: Server) -> Life:
        return Life(server)

    def start(self, server: Server, life: int) -> None:
        if not server.up and server.life == life and not server.starting:
            server.start()

    def restart(self, server: Server, down_ms: int) -> None:
        """Stop the server in good order, and start it again `down_ms` after it has ended."""
        if server.up:
            self.counted("restart")

            def again() -> None:
                self.push(self.now + down_ms * 1_000, self.start, server, server.life + 1)

            server.stop(again)
