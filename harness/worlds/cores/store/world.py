"""The parts of the simulator of the store."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.network import Network
from harness.worlds.cores.store.liveness import StoreLiveness
from harness.worlds.cores.store.server import StoreServer
from harness.worlds.cores.store.simulator import StoreSimulator
from harness.worlds.cores.store.workload import StoreWorkload


class StoreNetwork(Network):
    def cut(self, server: Any) -> None:
        """Cut the links of a server, and the connections of its clients, too."""
        super().cut(server)
        if server.up:
            server.client_port.cut()


class StoreWorld(StoreSimulator):
    servers: list[StoreServer]
    server_type = StoreServer
    network_type = StoreNetwork
    nemesis_type = Nemesis
    workload_type: ClassVar[Any] = StoreWorkload
    liveness_type: ClassVar[Any] = StoreLiveness
    has_quiet_stage = True


SIMULATOR: Final = StoreWorld
