"""The checkers of replication in one simulated run."""

from __future__ import annotations

from harness.checkers.partitions.assignments import Assignments
from harness.checkers.partitions.commitment import Commitment
from harness.checkers.partitions.disks import Disks
from harness.checkers.partitions.lag import Lag
from harness.checkers.partitions.logs import Logs
from harness.checkers.partitions.observed import Broker, World
from harness.checkers.partitions.positions import Positions
from harness.checkers.partitions.producers import Producers
from harness.checkers.partitions.replicas import Replicas
from harness.checkers.partitions.stability import Stability
from kraft_controller.core.commands import Command


class ReplicationCheckers:
    """All checkers of a run. The simulator calls their methods at each event that they check."""

    def __init__(self, world: World) -> None:
        self.replicas = Replicas(world)
        self.producers = Producers()
        self.commitment = Commitment(self.replicas, self.producers)
        self.stability = Stability(self.replicas)
        self.logs = Logs(self.replicas, self.commitment, self.stability)
        self.disks = Disks(self.replicas, self.logs)
        self.positions = Positions(self.replicas)
        self.assignments = Assignments()
        self.lag = Lag(self.replicas)

    def commanded(self, broker: Broker, command: Command) -> None:
        """Record a command that a broker is about to apply."""
        self.replicas.catch_up()
        self.replicas.processes.commanded(broker.id, command)
