"""What must be said of brokers and the records that they replicate, in stories of a few steps each."""

from __future__ import annotations

from tests.histories.partitions import clients, disks, epochs, going, leaders, lives, logs, producers
from tests.histories.partitions.story import STORIES, Told

MODULES = (logs, epochs, going, leaders, disks, lives, clients, producers)

__all__ = ["MODULES", "STORIES", "Told"]
