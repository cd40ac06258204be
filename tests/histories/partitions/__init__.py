"""Examples for every invariant of replication: legal runs, and runs that violate it."""

from __future__ import annotations

from tests.histories.partitions import clients, deletion, disks, epochs, leaders, logs, processes, producers
from tests.histories.partitions.scenario import EXAMPLES, Example

MODULES = (logs, epochs, deletion, leaders, disks, processes, clients, producers)

__all__ = ["MODULES", "EXAMPLES", "Example"]
