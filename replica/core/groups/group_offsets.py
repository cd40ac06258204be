"""The offsets of a group, and pending writes of offsets.

For each partition the latest record in the offsets topic wins, in whatever order the writes are reported, so this
coordinator agrees with one that reads the topic. An offset committed in a transaction takes effect with the
transaction's marker, but its place in the order is that of its own record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group_messages import OffsetAndMetadata


@define(eq=False)
class OpenTransaction:
    """The offsets that a producer has committed in its open transaction."""

    safe: dict[TopicPartition, OffsetAndMetadata] = field(factory=dict)
    """The newest offset of each partition whose write succeeded."""
    writing: dict[TopicPartition, int] = field(factory=dict)
    """The number of pending writes for each partition."""
    ends: list[tuple[int, bool]] = field(factory=list)
    """Transactions of this producer that ended while writes were pending: the marker's offset, and whether the
    transaction committed."""

    def wrote(self, where: TopicPartition) -> None:
        left = self.writing[where] - 1
        if left:
            self.writing[where] = left
        else:
            del self.writing[where]


@define(eq=False)
class GroupOffsets:
    """The committed offsets of one group, and the pending writes that may change them."""

    positions: dict[TopicPartition, OffsetAndMetadata] = field(factory=dict)
    on_the_way: dict[TopicPartition, int] = field(factory=dict)
    """The number of pending changes of each partition's offset: commits and deletions that are being written, and
    commits that wait for the end of a transaction."""
    _open: dict[int, OpenTransaction] = field(factory=dict)
    """The transactions that have not ended, or have pending writes, by producer id."""
    _dropped: dict[TopicPartition, int] = field(factory=dict)
    """The offset of each partition's newest tombstone. Kept while changes of the partition's offset are pending: a
    commit that is older than the tombstone must not restore the deleted offset."""

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
        """The producers with offsets of this group in an open transaction."""
        return self._open.keys()

    def hangs(self, where: TopicPartition) -> bool:
        """Return whether an open transaction may change the offset."""
        return any(where in each.safe or where in each.writing for each in self._open.values())

    def begin_in(self, producer: int, where: Collection[TopicPartition]) -> None:
        self.begin(where)
        writing = self._open.setdefault(producer, OpenTransaction()).writing
        for partition in where:
            writing[partition] = writing.get(partition, 0) + 1

    def kept_in(self, producer: int, where: TopicPartition, position: OffsetAndMetadata, written: int) -> None:
        """Handle a successful write in a transaction. The transaction's marker may have been reported earlier."""
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
        """Handle a failed write in a transaction."""
        self._open[producer].wrote(where)
        self.end((where,))
        self._tidy(producer)

    def end_of(self, producer: int, committed: bool, at: int) -> None:
        """Apply or drop the offsets that were written before the producer's marker at offset `at`."""
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

    # -- positions --------------------------------------------------------------------------------------

    def put(self, where: TopicPartition, position: OffsetAndMetadata, written: int) -> None:
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
        base: Callable[[OffsetAndMetadata], int],
        subscribed: Collection[str] = (),
    ) -> Iterator[TopicPartition]:
        """Yield the partitions with expired offsets, except those of `subscribed` topics or with pending changes.

        `base` returns the time from which the age of an offset counts. An offset with an expiration time
        of its own expires at that time instead.
        """
        for where, position in self.positions.items():
            if where.topic in subscribed or where in self.on_the_way:
                continue
            if position.expires_ms is not None:
                over = now >= position.expires_ms
            else:
                over = now - base(position) >= retention_ms
            if over:
                yield where
