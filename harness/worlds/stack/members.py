"""A simulated cluster of members that replicate a list, and the base class of the other simulated clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.checkers import ALL, Checker
from harness.faults import JOINING, Reconfigure, Script
from harness.members import member, with_server
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.cores.workload import Workload
from harness.worlds.stack.server import Life, Server
from harness.worlds.stack.simulation import Simulation
from zab.core.ensemble import Ensemble, Role
from zab.core.zxid import ServerId


class AnyServerWorkload(Workload):
    """Submits to the leaders and to one running server in turn: members forward requests to their leader."""

    def believers(self) -> list[CoreServer]:
        running = self.world.running()
        leaders = super().believers()
        other = running[self._number % len(running)] if running else None
        return leaders if other is None or other in leaders else [*leaders, other]


class World(Simulation):
    servers: list[Server]

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
        total = max([script.servers, *joining])
        super().__init__(script, total, trace=trace, checkers=checkers)
        self.servers = [Server(self, ServerId(sid), self.founders, str(script.seed)) for sid in range(total + 1)]
        for server in self.servers[1 : script.servers + 1]:
            server.founded = True
        same: Any = self
        self.nemesis = Nemesis(same)
        self.workload = self.make_workload()
        self.liveness = self.make_liveness()

    def make_workload(self) -> Workload:
        same: Any = self
        return AnyServerWorkload(same)

    def make_liveness(self) -> Liveness:
        same: Any = self
        return Liveness(same)

    def life(self, server: Server) -> Life:
        return Life(server)

    def start(self, server: Server, life: int) -> None:
        if not server.up and server.life == life and not server.starting:
            server.start()

    def join(self, sid: ServerId, ensemble: Ensemble) -> None:
        """Start a new server. Its configuration has the current members, and the server itself as an observer."""
        server = self.servers[sid]
        if not server.founded:
            ensemble_of_file = with_server(ensemble, member(sid, Role.OBSERVER))
            assert ensemble_of_file is not None, "an observer does not change the quorums"
            server.ensemble = ensemble_of_file
            server.founded = True
            self.start(server, server.life)

    def restart(self, server: Server, down_ms: int) -> None:
        """Stop the server in good order, and start it again `down_ms` after it has ended."""
        if server.up:
            self.counted("restart")

            def again() -> None:
                self.push(self.now + down_ms * 1_000, self.start, server, server.life + 1)

            server.stop(again)
