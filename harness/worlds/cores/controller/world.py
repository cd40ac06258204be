"""The parts of the simulator of controllers, and the check that its brokers agree after the last fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from harness.checkers.controller.settled import Data, apart
from harness.worlds.controller.settled import ROUNDS_MS, end_broker_faults, unsettled
from harness.worlds.cores.controller.broker import Broker
from harness.worlds.cores.controller.simulator import ControllerSimulator
from harness.worlds.cores.controller.workload import ControllerWorkload
from harness.worlds.cores.liveness import INVARIANT
from harness.worlds.cores.server import Server
from harness.worlds.cores.store.liveness import StoreLiveness
from harness.worlds.cores.store.world import StoreWorld


class ControllerLiveness(StoreLiveness):
    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.bound_ms += ROUNDS_MS + 4 * world.session_ms

    def begin(self) -> None:
        end_broker_faults(self.world)
        super().begin()

    def _unequal(self, leader: Server) -> str | None:
        machine: Any = leader.machine
        missing = self._unsettled(machine.store.tree.nodes)
        if missing is not None:
            self.invariant, what = missing
            return what
        self.invariant = INVARIANT
        return super()._unequal(leader)

    def _unsettled(self, nodes: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return an invariant that does not hold yet, and the reason; None if all hold."""
        return unsettled(nodes, self._apart)

    def _apart(self, data: Data, versions: Mapping[str, int]) -> str | None:
        """Return how a broker differs from the nodes of the store; None if all agree."""
        replicas = {broker.id: broker.replicas for broker in self.world.brokers.values() if broker.up}
        return apart(data, versions, replicas, self.world.script.brokers)


class ControllerWorld(ControllerSimulator, StoreWorld):
    broker_type: ClassVar[Any] = Broker
    workload_type: ClassVar[Any] = ControllerWorkload
    liveness_type: ClassVar[Any] = ControllerLiveness
    has_quiet_stage = False  # the bounds of brokers assume that all servers are back


SIMULATOR: Final = ControllerWorld
