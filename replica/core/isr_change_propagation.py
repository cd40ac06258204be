"""The delay before the controller is notified of changed ISRs.

Each notification makes the controller send metadata to all brokers, and in a bad minute a thousand ISRs change back and
forth. So changes are collected, as by Kafka's `maybePropagateIsrChanges`.
"""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.names import TopicPartition


@define(eq=False)
class IsrChangePropagation:
    """Collects the partitions whose ISR changed until the controller is notified of them."""

    quiet_ms: int
    """The controller is notified when no ISR has changed for this long,"""
    late_ms: int
    """or when it was not notified for this long."""
    _changed: dict[TopicPartition, None] = field(factory=dict)
    """The partitions of which the controller was not notified yet."""
    _last_change: int = 0
    _last_notified: int = 0

    def changed(self, where: TopicPartition, now: int) -> None:
        self._changed[where] = None
        self._last_change = now

    def due(self, now: int) -> tuple[TopicPartition, ...]:
        """Return the partitions of which to notify the controller now. They stay due until `notified`."""
        if self._changed and (now - self._last_change >= self.quiet_ms or now - self._last_notified >= self.late_ms):
            return tuple(self._changed)
        return ()

    def notified(self, partitions: tuple[TopicPartition, ...], now: int) -> None:
        for where in partitions:
            self._changed.pop(where, None)
        self._last_notified = now
