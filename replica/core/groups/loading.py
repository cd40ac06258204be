"""A partition of the offsets topic, read again from its start: the newest of everything that stands in it."""

from __future__ import annotations

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group import Group
from replica.core.groups.holding import Ledger
from replica.core.groups.messages import Position
from replica.core.groups.ready import GroupRecord, OffsetRecord, Record, SavedGroup


@define(eq=False)
class Loading:
    """ended   transactions whose end became safe meanwhile: where it stands, whose, and how it was"""

    ended: list[tuple[int, int, bool]] = field(factory=list)
    _groups: dict[str, tuple[SavedGroup, int]] = field(factory=dict)
    _offsets: dict[str, dict[TopicPartition, Position]] = field(factory=dict)
    _open: dict[int, dict[tuple[str, TopicPartition], Position]] = field(factory=dict)
    """By producer: what its transaction, of which no end was found yet, has committed."""
    _dropped: dict[tuple[str, TopicPartition], int] = field(factory=dict)
    """Where the newest deletion stands, of positions that a transaction may bring back."""

    def replay(self, offset: int, record: Record, producer: int | None = None) -> None:
        match record:
            case GroupRecord(group, None):
                self._groups.pop(group, None)
            case GroupRecord(group, saved):
                assert saved is not None
                self._groups[group] = (saved, offset)
            case OffsetRecord(group, where, None):
                self._offsets.get(group, {}).pop(where, None)
                if self._open:
                    self._dropped[group, where] = offset
            case OffsetRecord(group, where, position):
                assert position is not None
                position = evolve(position, written=offset)
                if producer is not None:
                    self._open.setdefault(producer, {})[group, where] = position
                else:
                    self._offsets.setdefault(group, {})[where] = position

    def replay_end(self, offset: int, producer: int, committed: bool) -> None:
        """Of a position in a transaction and one beside it the one that stands later holds, as ever."""
        for (group, where), position in list(self._open.get(producer, {}).items()):
            if position.written > offset:
                continue
            del self._open[producer][group, where]
            held = self._offsets.setdefault(group, {})
            newest = max(held[where].written if where in held else -1, self._dropped.get((group, where), -1))
            if committed and position.written > newest:
                held[where] = position
        if not self._open.get(producer):
            self._open.pop(producer, None)
        if not self._open:
            self._dropped.clear()

    def build(self, partition: int, now: int, ledger: Ledger) -> dict[str, Group]:
        for end in sorted(self.ended):
            self.replay_end(*end)
        groups: dict[str, Group] = {}
        for name, (saved, offset) in self._groups.items():
            groups[name] = Group.load(name, partition, saved, now, ledger)
            groups[name].saved_at = offset
        for name, positions in self._offsets.items():
            if positions:
                # Without a record of its own it only keeps positions, and was never anything but empty.
                groups.setdefault(name, Group(name, partition, -1, ledger=ledger)).offsets.positions.update(positions)
        for producer, entries in self._open.items():
            for (name, where), position in entries.items():
                group = groups.setdefault(name, Group(name, partition, -1, ledger=ledger))
                group.offsets.begin_in(producer, (where,))
                group.offsets.kept_in(producer, where, position, position.written)
        return groups
