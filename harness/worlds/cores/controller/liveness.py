"""After the last fault: the store as always, and then brokers that agree, and nothing left undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.worlds.controller.settled import unhinder, unsettled
from harness.worlds.cores.liveness import PROMISE
from harness.worlds.cores.store.liveness import StoreLiveness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.worlds.cores.controller.world import ControllerWorld
    from harness.worlds.cores.server import Server

ROUNDS_MS: Final = 3_000
"""For what takes its time when everybody is there: sessions that end, reassignments, followers that catch up."""


class ControllerLiveness(StoreLiveness):
    def __init__(self, world: ControllerWorld) -> None:
        super().__init__(world)
        self._controller_world = world
        self.bound_ms += ROUNDS_MS + 4 * world.session_ms

    def begin(self) -> None:
        world = self._controller_world
        unhinder(world.brokers.values(), world.start_later)
        super().begin()

    def _unequal(self, leader: Server) -> str | None:
        world = self._controller_world
        nodes = world.servers[leader.id].machine.store.tree.nodes
        missing = self._unsettled(nodes)
        if missing is not None:
            self.promise, what = missing
            return what
        self.promise = PROMISE
        return super()._unequal(leader)

    def _unsettled(self, nodes: Mapping[str, Any]) -> tuple[str, str] | None:
        """The promise that is not kept yet, and why."""
        world = self._controller_world
        replicas = {broker.id: broker.replicas for broker in world.brokers.values() if broker.up}
        return unsettled(nodes, replicas, world.script.brokers)
