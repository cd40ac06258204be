"""The delay before the controller is notified of changed ISRs.

Each notification makes the controller send metadata to all brokers, and at times a thousand ISRs change back and forth.
So changes are batched, as in Kafka's `maybePropagateIsrChanges`.
"""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.names import TopicPartition


@define(eq=False)
class IsrChangePropagation:
    """Collects the partitions whose ISR changed until the controller is notified of them."""

    quiet_ms: int
    """Notify the controller when no ISR has changed for this long."""
    late_ms: int
    """Notify the controller at the latest this long after the previous notification."""
    _changed: dict[TopicPartition, None] = field(factory=dict)
    """The partitions whose changes the controller has not been notified of."""
    _last_change: int = 0
    _last_notified: int = 0

    def changed(self, where: TopicPartition, now: int) -> None:
        self._changed[where] = None
        self._last_change = now

    def due(self, now: int) -> tuple[TopicPartition, ...]:
        """Return the partitions to report to the controller now. They stay due until `notified`."""
        if self._changed and (now - self._last_change >= self.quiet_ms or now - self._last_notified >= self.late_ms):
            return tuple(self._changed)
        return ()

    def notified(self, partitions: tuple[TopicPartition, ...], now: int) -> None:
        for where in partitions:
            self._changed.pop(where, None)
        self._last_notified = now
