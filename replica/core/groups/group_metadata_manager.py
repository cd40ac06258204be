"""The groups that this broker coordinates, and the writes to the offsets topic, as Kafka's `GroupMetadataManager`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from replica.core.coordinator_topic import CoordinatorOutbox, CoordinatorTopic, Done, Load
from replica.core.errors import ErrorCode
from replica.core.groups.group_effects import GroupAppend, Note, Record
from replica.core.groups.group_loading import GroupLoading
from replica.core.groups.group_members import GroupMembers
from replica.core.groups.group_messages import Reply
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_states import GroupState
from replica.core.groups.member_memory import MemberMemory

E: TypeAlias = ErrorCode


class GroupMetadataManager:
    """Adds and removes groups, writes their records, and applies transaction markers to their offsets."""

    def __init__(
        self,
        topic: CoordinatorTopic[GroupMetadata, GroupLoading],
        outbox: CoordinatorOutbox[Reply, GroupAppend, Note],
    ) -> None:
        self.memory = MemberMemory()
        """The memory that the members of all groups use."""
        self._topic = topic
        self._outbox = outbox
        self._open_groups: dict[tuple[int, int], dict[str, None]] = {}
        """The groups with offsets in a producer's open transaction, by partition and producer id."""

    def __iter__(self) -> Iterator[GroupMetadata]:
        return iter(self._topic)

    def add(self, name: str, now: int) -> GroupMetadata:
        partition = self._topic.partition_of(name)
        group = GroupMetadata(name, partition, now, members=GroupMembers(self.memory))
        self._topic.add(partition, name, group)
        return group

    def remove_if_unused(self, group: GroupMetadata) -> None:
        """Forget a new group whose first join or commit was refused: clients may invent any number of group ids."""
        if (
            group.saved_at < 0
            and not group.generation
            and not group.members
            and not group.members.pending
            and not group.offsets
        ):
            self._topic.remove(group.partition, group.id)

    def remove_if_gone(self, group: GroupMetadata, now: int) -> None:
        """Forget a group without a record in the topic, unless a client has joined or committed meanwhile."""
        if group.state is GroupState.EMPTY and not group.offsets and not group.members.pending and group.saved_at < 0:
            self._outbox.note(group.transition_to(GroupState.DEAD, now))
            self._topic.remove(group.partition, group.id)

    def store(
        self,
        group: GroupMetadata,
        records: tuple[Record, ...],
        now: int,
        done: Done,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Write records of a group. `producer`: id and epoch of a transactional producer."""
        partition = group.partition
        ident = self._topic.write(partition, done)
        self._outbox.appends.append(GroupAppend(ident, partition, records, now, producer))

    # -- loading -------------------------------------------------------------------------------------------

    def load(self, load: Load, groups: Mapping[str, GroupMetadata]) -> None:
        """Register the open transactions of loaded groups."""
        for group in groups.values():
            for producer in group.offsets.producers:
                self._open_groups.setdefault((load.partition, producer), {})[group.id] = None

    def unload(self, partition: int) -> None:
        for key in [key for key in self._open_groups if key[0] == partition]:
            del self._open_groups[key]

    # -- transactions --------------------------------------------------------------------------------------

    def open_transaction(self, group: GroupMetadata, producer: int) -> None:
        """Record that the producer's transaction has offsets of this group."""
        self._open_groups.setdefault((group.partition, producer), {})[group.id] = None

    def complete_transaction(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """Apply or drop the offsets that the producer committed before its marker at `offset`. If the partition is
        being loaded, do so at the end of the load."""
        loading = self._topic.found_in(partition)
        if loading is not None:
            loading.ended.append((offset, producer, committed))
            return
        groups = self._topic.names_in(partition)
        for name in self._open_groups.pop((partition, producer), {}):
            group = groups.get(name)
            if group is not None:
                group.offsets.end_of(producer, committed, offset)
                if producer in group.offsets.producers:
                    self.open_transaction(group, producer)


_COMMIT_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.FENCED_LEADER_EPOCH: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.RECORD_LIST_TOO_LARGE: E.INVALID_COMMIT_OFFSET_SIZE,
    E.INVALID_FETCH_SIZE: E.INVALID_COMMIT_OFFSET_SIZE,
}
_GROUP_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **_COMMIT_ERRORS,
    E.REQUEST_TIMED_OUT: E.REBALANCE_IN_PROGRESS,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
}


def commit_error(error: ErrorCode) -> ErrorCode:
    """Translate a write error for a client that commits or deletes offsets, or deletes a group."""
    return _COMMIT_ERRORS.get(error, error)


def group_error(error: ErrorCode) -> ErrorCode:
    """Translate the error of a failed write of group metadata for the members of the group."""
    return _GROUP_ERRORS.get(error, error)
