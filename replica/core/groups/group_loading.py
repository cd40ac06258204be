"""The state of an offsets partition while a new coordinator reads it."""

from __future__ import annotations

from attrs import define, evolve, field

from kraft_controller.core.names import TopicPartition
from replica.core.groups.group_effects import GroupRecord, OffsetRecord, Record, SavedGroup
from replica.core.groups.group_members import GroupMembers
from replica.core.groups.group_messages import OffsetAndMetadata
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.member_memory import MemberMemory


@define(eq=False)
class GroupLoading:
    """Keeps the newest record of each group and each offset."""

    ended: list[tuple[int, int, bool]] = field(factory=list)
    """Transactions that ended during the load: the marker's offset, the producer id, and whether the transaction
    committed."""
    _groups: dict[str, tuple[SavedGroup, int]] = field(factory=dict)
    _offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(factory=dict)
    _open: dict[int, dict[tuple[str, TopicPartition], OffsetAndMetadata]] = field(factory=dict)
    """The offsets of each producer's transaction whose marker has not been read yet."""
    _dropped: dict[tuple[str, TopicPartition], int] = field(factory=dict)
    """The offset of the newest tombstone for each group and partition. Kept while any transaction is open: an older
    commit in it must not restore the deleted offset."""

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
        """Apply a transaction marker. If an offset of the transaction was also committed or deleted outside of it, the
        later record wins."""
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

    def build(self, partition: int, now: int, memory: MemberMemory) -> dict[str, GroupMetadata]:
        for end in sorted(self.ended):
            self.replay_end(*end)
        groups: dict[str, GroupMetadata] = {}
        for name, (saved, offset) in self._groups.items():
            groups[name] = GroupMetadata.load(name, partition, saved, now, memory)
            groups[name].saved_at = offset
        for name, positions in self._offsets.items():
            if positions:
                # A group without a group record has no members: it only stores offsets.
                group = groups.setdefault(name, GroupMetadata(name, partition, -1, members=GroupMembers(memory)))
                group.offsets.positions.update(positions)
        for producer, entries in self._open.items():
            for (name, where), position in entries.items():
                group = groups.setdefault(name, GroupMetadata(name, partition, -1, members=GroupMembers(memory)))
                group.offsets.begin_in(producer, (where,))
                group.offsets.kept_in(producer, where, position, position.written)
        return groups
