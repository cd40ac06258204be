"""The delay before the controller is notified of changed ISRs.

Each notification makes the controller send metadata to all brokers, and at times a thousand ISRs change back and forth.
So changes are batched, as in Kafka's `maybePropagateIsrChanges`.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from kraft_controller.core.names import TopicPartition


@define(eq=False)
class IsrChangePropagation:
    """Collects the partitions whose ISR changed until the controller is notified of them."""

    quiet_ms: int
    """Notify the controller when no ISR has changed for this long."""
    late_ms: int
    """Notify the controller at the latest this long after the previous notification."""
    _changed: dict[TopicPartition, int] = field(factory=dict)
    """The partitions whose changes the controller has not been notified of, each with the number of its last change."""
    _changes: int = 0
    """The number of changes so far."""
    _last_change: int = 0
    _last_notified: int = 0

    def changed(self, where: TopicPartition, now: int) -> None:
        self._changes += 1
        self._changed[where] = self._changes
        self._last_change = now

    def due(self, now: int) -> Mapping[TopicPartition, int]:
        """Return the partitions to report to the controller now, each with the number of its last change. They stay due
        until `notified`."""
        if self._changed and (now - self._last_change >= self.quiet_ms or now - self._last_notified >= self.late_ms):
            return dict(self._changed)
        return {}

    def notified(self, reported: Mapping[TopicPartition, int], now: int) -> None:
        """Forget the changes that `due` returned. A partition that has changed again since then is reported again."""
        for where, change in reported.items():
            if self._changed.get(where) == change:
                del self._changed[where]
        self._last_notified = now
