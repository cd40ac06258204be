"""When the controller is told which ISRs leaders have changed. Not for each change: brokers hear of it through all of
the cluster's metadata, and in a bad minute a thousand ISRs change back and forth."""

from __future__ import annotations

from attrs import define, field

from kraft_controller.core.names import TopicPartition


@define
class Notices:
    """quiet_ms   nothing has changed for so long
    late_ms    or nothing was told for so long
    """

    quiet_ms: int = 5_000
    late_ms: int = 60_000
    _changed: dict[TopicPartition, None] = field(factory=dict)
    _last_change: int = 0
    _last_told: int = 0

    def changed(self, where: TopicPartition, now: int) -> None:
        self._changed[where] = None
        self._last_change = now

    def due(self, now: int) -> tuple[TopicPartition, ...]:
        """To be told now; nothing is forgotten before `told`."""
        if self._changed and (now - self._last_change >= self.quiet_ms or now - self._last_told >= self.late_ms):
            return tuple(self._changed)
        return ()

    def told(self, partitions: tuple[TopicPartition, ...], now: int) -> None:
        for where in partitions:
            self._changed.pop(where, None)
        self._last_told = now
