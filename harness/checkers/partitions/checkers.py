"""The checkers of replication in a simulated world."""

from __future__ import annotations

from harness.checkers.partitions.assignments import Assignments
from harness.checkers.partitions.commitment import Commitment
from harness.checkers.partitions.disks import Disks
from harness.checkers.partitions.logs import Logs
from harness.checkers.partitions.observed import Broker, World
from harness.checkers.partitions.positions import Positions
from harness.checkers.partitions.producers import Producers
from harness.checkers.partitions.replicas import Replicas
from harness.checkers.partitions.stability import Stability
from kraft_controller.core.commands import Command


class Checkers:
    """Each checker has methods for the facts that it checks; the world calls them."""

    def __init__(self, world: World) -> None:
        self.replicas = Replicas(world)
        self.producers = Producers()
        self.commitment = Commitment(self.replicas, self.producers)
        self.stability = Stability(self.replicas)
        self.logs = Logs(self.replicas, self.commitment, self.stability)
        self.disks = Disks(self.replicas, self.logs)
        self.positions = Positions(self.replicas)
        self.assignments = Assignments()

    def commanded(self, broker: Broker, command: Command) -> None:
        """A broker is about to obey a controller."""
        self.replicas.catch_up()
        self.replicas.lives.obeys(broker.id, command)
