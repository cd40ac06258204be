"""How far a group has come: what is safe, and what is on its way to be.

Of two positions in one partition, the one that stands later in the offsets topic holds, in whatever order their writes
were reported. So a coordinator that has only heard of them and one that has read the topic agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.messages import Position


@define(eq=False)
class Offsets:
    positions: dict[TopicPartition, Position] = field(factory=dict)
    on_the_way: dict[TopicPartition, int] = field(factory=dict)
    """How many writes for it are under way."""
    _dropped: dict[TopicPartition, int] = field(factory=dict)
    """Where the newest deletion stands, of those that may still be overtaken by an older position."""

    def __bool__(self) -> bool:
        return bool(self.positions or self.on_the_way)

    def begin(self, where: Collection[TopicPartition]) -> None:
        for partition in where:
            self.on_the_way[partition] = self.on_the_way.get(partition, 0) + 1

    def end(self, where: Collection[TopicPartition]) -> None:
        for partition in where:
            left = self.on_the_way[partition] - 1
            if left:
                self.on_the_way[partition] = left
            else:
                del self.on_the_way[partition]
                self._dropped.pop(partition, None)

    def put(self, where: TopicPartition, position: Position, written: int) -> None:
        if written > max(self._newest(where), self._dropped.get(where, -1)):
            self.positions[where] = evolve(position, written=written)

    def drop(self, where: TopicPartition, written: int) -> None:
        if written > self._newest(where):
            self.positions.pop(where, None)
        if where in self.on_the_way:
            self._dropped[where] = max(written, self._dropped.get(where, -1))

    def _newest(self, where: TopicPartition) -> int:
        known = self.positions.get(where)
        return known.written if known is not None else -1

    def expired(
        self,
        now: int,
        retention_ms: int,
        base: Callable[[Position], int],
        subscribed: Collection[str] = (),
    ) -> Iterator[TopicPartition]:
        """Older than they may become. `base`: from when on their age counts."""
        for where, position in self.positions.items():
            if where.topic in subscribed or where in self.on_the_way:
                continue
            if position.expires_ms is not None:
                over = now >= position.expires_ms
            else:
                over = now - base(position) >= retention_ms
            if over:
                yield where
