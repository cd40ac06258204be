"""After the last fault: brokers that agree, and then partitions of which every replica holds the same, all of it
committed, and nobody who still waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.checkers.controller.settled import Data
from harness.checkers.partitions.settled import apart, unequal
from harness.worlds.controller.settled import lacking
from harness.worlds.cores.controller.liveness import ControllerLiveness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.worlds.cores.partitions.world import PartitionsWorld


class PartitionsLiveness(ControllerLiveness):
    def __init__(self, world: PartitionsWorld) -> None:
        super().__init__(world)
        self._world_of_partitions = world
        self.bound_ms += world.replication.timeout_ms  # whoever lost his answer asks anew when he has waited for it

    def begin(self) -> None:
        world = self._world_of_partitions
        world.wires.heal()
        for broker in world.brokers.values():
            broker.mend()
        super().begin()

    def _unsettled(self, nodes: Mapping[str, Any]) -> tuple[str, str] | None:
        return lacking(nodes, self._apart)

    def _apart(self, data: Data, versions: Mapping[str, int]) -> str | None:
        world = self._world_of_partitions
        there = {broker.id: broker for broker in world.brokers.values() if broker.up}
        missing = apart(data, versions, there, world.script.brokers)
        return missing if missing is not None else unequal(world)
