"""Lookups of offsets by timestamp, as in Kafka's ListOffsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.partitions.partition_log import PartitionLog, TimestampAndOffset

LATEST: Final = -1
EARLIEST: Final = -2
GREATEST: Final = -3
"""The special timestamp that selects the record with the greatest timestamp."""
EARLIEST_LOCAL: Final = -4


@frozen
class Lookup:
    """One partition with a timestamp, or with one of the constants above."""

    where: TopicPartition
    timestamp: int
    leader_epoch: int = -1

    @property
    def by_time(self) -> bool:
        """True if the log has to be searched."""
        return self.timestamp >= 0 or self.timestamp == GREATEST


Search: TypeAlias = Callable[[PartitionLog, int], TimestampAndOffset | None]


def search(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record with this timestamp or a later one; for GREATEST, the record with the greatest timestamp.
    Return None if there is none."""
    return log.greatest_timestamp() if timestamp == GREATEST else log.find_timestamp(timestamp)
