"""After the last fault: the store as always, and then brokers that agree, and nothing left undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.worlds.controller.ruling import unhinder
from harness.worlds.controller.settling import ROUNDS_MS, unsettled
from harness.worlds.cores.liveness import PROMISE
from harness.worlds.cores.server import Server as CoreServer
from harness.worlds.stack.store.liveness import StoreLiveness

if TYPE_CHECKING:
    from harness.worlds.stack.controller.world import ControllerWorld


class ControllerLiveness(StoreLiveness):
    def __init__(self, world: ControllerWorld) -> None:
        super().__init__(world)
        self._controller_world = world
        self.bound_ms += ROUNDS_MS + 4 * world.session_ms

    def begin(self) -> None:
        world = self._controller_world
        unhinder(world.brokers.values(), world.start_later)
        super().begin()

    def _unequal(self, leader: CoreServer) -> str | None:
        world = self._controller_world
        holds: Any = world.servers[leader.id].machine
        replicas = {broker.id: broker.replicas for broker in world.brokers.values() if broker.up}
        missing = unsettled(holds.store.tree.nodes, replicas, world.script.brokers)
        if missing is not None:
            self.promise, what = missing
            return what
        self.promise = PROMISE
        return super()._unequal(leader)
