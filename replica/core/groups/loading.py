"""A partition of the offsets topic, read again from its start: the newest of everything that stands in it."""

from __future__ import annotations

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group import Group
from replica.core.groups.messages import Position
from replica.core.groups.ready import GroupRecord, OffsetRecord, Record, SavedGroup


@define(eq=False)
class Loading:
    number: int
    epoch: int
    _groups: dict[str, tuple[SavedGroup, int]] = field(factory=dict)
    _offsets: dict[str, dict[TopicPartition, Position]] = field(factory=dict)

    def replay(self, offset: int, record: Record) -> None:
        match record:
            case GroupRecord(group, None):
                self._groups.pop(group, None)
            case GroupRecord(group, saved):
                assert saved is not None
                self._groups[group] = (saved, offset)
            case OffsetRecord(group, where, None):
                self._offsets.get(group, {}).pop(where, None)
            case OffsetRecord(group, where, position):
                assert position is not None
                self._offsets.setdefault(group, {})[where] = evolve(position, written=offset)

    def build(self, partition: int, now: int) -> dict[str, Group]:
        groups: dict[str, Group] = {}
        for name, (saved, offset) in self._groups.items():
            groups[name] = Group.load(name, partition, saved, now)
            groups[name].saved_at = offset
        for name, positions in self._offsets.items():
            if positions:
                # Without a record of its own it only keeps positions, and was never anything but empty.
                groups.setdefault(name, Group(name, partition, -1)).offsets.positions.update(positions)
        return groups
