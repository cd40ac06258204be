"""A limit on the replication of chosen partitions to replicas that are not in sync (KIP-73). It leaves bandwidth to the
in-sync replicas during reassignments.

A batch is never divided, so one answer may exceed the rate. Then the next transfer waits until the average is within
the rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import define, field

from kraft_controller.core.names import TopicPartition

PAUSE_MS: Final = 3_600_000
"""The time until the next check while the rate is 0."""


@define(eq=False)
class ReplicationQuotaManager:
    """Limits the rate of all throttled partitions of one broker together, in one direction of replication."""

    bytes_s: int | None = None
    """The rate in bytes per second; None: unlimited; 0: throttled replicas receive nothing."""
    partitions: dict[TopicPartition, None] = field(factory=dict)
    """The throttled partitions. The throttle does not apply to their in-sync replicas."""
    _open_at: float = 0.0
    """The time at which the recorded bytes are within the rate."""

    def configure(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        self.partitions = dict.fromkeys(partitions)
        self.bytes_s = bytes_s

    def record(self, size: int, now: int) -> None:
        if self.bytes_s:
            self._open_at = max(self._open_at, now) + size * 1000 / self.bytes_s

    def open_at(self, now: int) -> int:
        """Return the earliest time at which more may be transferred."""
        if self.bytes_s == 0:
            return now + PAUSE_MS
        return now if self.bytes_s is None or self._open_at <= now else int(self._open_at) + 1
