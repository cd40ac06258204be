"""The parts of the simulator of partitions, and the check that its replicas are equal after the last fault."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from harness.checkers.controller.settled import Data
from harness.checkers.partitions.settled import apart, unequal
from harness.checkers.partitions.stability import ENDS
from harness.worlds.cores.controller.world import ControllerLiveness, ControllerWorld
from harness.worlds.cores.partitions.broker import PartitionBroker
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from harness.worlds.cores.partitions.workload import PartitionsWorkload


class PartitionsLiveness(ControllerLiveness):
    def __init__(self, world: PartitionsSimulator) -> None:
        super().__init__(world)
        self.bound_ms += world.replication.timeout_ms  # a client whose reply was lost repeats its request after it

    def begin(self) -> None:
        self.world.wires.heal()
        for broker in self.world.brokers.values():
            broker.mend()
            broker.soon(partial(broker.throttle, [], None))
        super().begin()

    def _unsettled(self, nodes: Mapping[str, Any]) -> tuple[str, str] | None:
        found = super()._unsettled(nodes)
        if found is None and (what := self.world.checkers.stability.unsettled()) is not None:
            found = ENDS, what
        return found

    def _apart(self, data: Data, versions: Mapping[str, int]) -> str | None:
        running = {broker.id: broker for broker in self.world.brokers.values() if broker.up}
        missing = apart(data, versions, running, self.world.script.brokers)
        return missing if missing is not None else unequal(self.world.checkers)


class PartitionsWorld(PartitionsSimulator, ControllerWorld):
    broker_type: ClassVar[Any] = PartitionBroker
    workload_type: ClassVar[Any] = PartitionsWorkload
    liveness_type: ClassVar[Any] = PartitionsLiveness


SIMULATOR: Final = PartitionsWorld
