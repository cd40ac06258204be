"""How far a group has come: what is safe, and what is on its way to be.

Of two positions in one partition, the one that stands later in the offsets topic holds, in whatever order their writes
were reported. So a coordinator that has only heard of them and one that has read the topic agree. That is so also
of one that was committed in a transaction, which counts from the end of that on: it stands where it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.messages import Position


@define(eq=False)
class Open:
    """What a producer has committed in its transaction.

    safe      the newest position of each partition, of those that stand in the topic
    writing   how many writes for a partition are under way
    ends      transactions of this producer that ended meanwhile: where their ends stand, and how they were
    """

    safe: dict[TopicPartition, Position] = field(factory=dict)
    writing: dict[TopicPartition, int] = field(factory=dict)
    ends: list[tuple[int, bool]] = field(factory=list)

    def wrote(self, where: TopicPartition) -> None:
        left = self.writing[where] - 1
        if left:
            self.writing[where] = left
        else:
            del self.writing[where]


@define(eq=False)
class Offsets:
    positions: dict[TopicPartition, Position] = field(factory=dict)
    on_the_way: dict[TopicPartition, int] = field(factory=dict)
    """How many writes for it are under way, or hang on a transaction that has not ended."""
    _open: dict[int, Open] = field(factory=dict)
    """By producer."""
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

    # -- in transactions ---------------------------------------------------------------------------------

    @property
    def producers(self) -> Collection[int]:
        """Whose transactions have positions here."""
        return self._open.keys()

    def hangs(self, where: TopicPartition) -> bool:
        """A transaction that has not ended may give it another position."""
        return any(where in each.safe or where in each.writing for each in self._open.values())

    def begin_in(self, producer: int, where: Collection[TopicPartition]) -> None:
        self.begin(where)
        writing = self._open.setdefault(producer, Open()).writing
        for partition in where:
            writing[partition] = writing.get(partition, 0) + 1

    def kept_in(self, producer: int, where: TopicPartition, position: Position, written: int) -> None:
        """It is safe. The end of the transaction may be so already: they are reported in any order."""
        known = self._open[producer]
        known.wrote(where)
        ended = next((committed for at, committed in sorted(known.ends) if at > written), None)
        older = known.safe.get(where)
        if ended is not None:
            if ended:
                self.put(where, position, written)
            self.end((where,))
        else:
            if older is None or written > older.written:
                known.safe[where] = evolve(position, written=written)
            if older is not None:
                self.end((where,))
        self._tidy(producer)

    def lost_in(self, producer: int, where: TopicPartition) -> None:
        """It could not be written."""
        self._open[producer].wrote(where)
        self.end((where,))
        self._tidy(producer)

    def end_of(self, producer: int, committed: bool, at: int) -> None:
        """The end of the producer's transaction stands there, and is safe."""
        known = self._open.get(producer)
        if known is None:
            return
        for where, position in list(known.safe.items()):
            if position.written < at:
                del known.safe[where]
                if committed:
                    self.put(where, position, position.written)
                self.end((where,))
        if known.writing:
            known.ends.append((at, committed))
        self._tidy(producer)

    def _tidy(self, producer: int) -> None:
        known = self._open[producer]
        if not known.writing:
            known.ends.clear()
            if not known.safe:
                del self._open[producer]

    # -- what holds --------------------------------------------------------------------------------------

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
