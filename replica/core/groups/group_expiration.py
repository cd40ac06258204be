"""Deletion of offsets and groups: on request, on expiry, or because a topic was deleted.

A deletion is reported only after its tombstones are committed, so the next coordinator does not restore what was
deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import CoordinatorOutbox
from replica.core.groups.group_effects import (
    GroupAppend,
    GroupNotWritten,
    GroupRecord,
    Note,
    OffsetRecord,
    OffsetsExpired,
    Record,
)
from replica.core.groups.group_messages import (
    DeleteOffsets,
    GroupDeleted,
    OffsetAndMetadata,
    OffsetsDeleted,
    Reply,
    Ticket,
)
from replica.core.groups.group_metadata import CONSUMER, GroupMetadata
from replica.core.groups.group_metadata_manager import E, GroupMetadataManager, commit_error
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import GroupState

S = GroupState

TOMBSTONES_PER_BATCH: Final = 1_000
"""The limit for tombstones in one batch: a larger batch could exceed the topic's `max.message.bytes`, and would be
refused at each attempt."""


class GroupExpiration:
    """Deletes offsets and groups by tombstones."""

    def __init__(
        self,
        settings: GroupSettings,
        groups: GroupMetadataManager,
        outbox: CoordinatorOutbox[Reply, GroupAppend, Note],
    ) -> None:
        self._settings = settings
        self._groups = groups
        self._outbox = outbox

    def on_delete(self, group: GroupMetadata, ticket: Ticket, now: int) -> None:
        if group.state is not S.EMPTY:
            self._outbox.answer(ticket, GroupDeleted(E.NON_EMPTY_GROUP))
            return

        def then(error: E, later: int) -> None:
            if error is E.NONE:
                self._groups.remove_if_gone(group, later)
            self._outbox.answer(ticket, GroupDeleted(commit_error(error)))

        self._bury(group, tuple(group.offsets.positions), True, now, then)

    def on_delete_offsets(self, group: GroupMetadata, ticket: Ticket, ask: DeleteOffsets, now: int) -> None:
        subscribed: Collection[str] | None = frozenset()
        if group.state is not S.EMPTY:
            if group.protocol_type != CONSUMER:
                self._outbox.answer(ticket, OffsetsDeleted(E.NON_EMPTY_GROUP))
                return
            subscribed = group.subscribed
        errors = dict.fromkeys(ask.partitions, E.NONE)
        for where in ask.partitions:
            if subscribed is None or where.topic in subscribed:
                errors[where] = E.GROUP_SUBSCRIBED_TO_TOPIC
        free = [where for where in errors if errors[where] is E.NONE]

        def then(error: E, _: int) -> None:
            outcome = errors | dict.fromkeys(free, commit_error(error))
            self._outbox.answer(ticket, OffsetsDeleted(E.NONE, outcome))

        self._bury(group, [where for where in free if where in group.offsets.positions], False, now, then)

    def sweep(self, group: GroupMetadata, now: int) -> None:
        """Delete expired offsets, and an empty group that then has no offsets and no pending members."""
        self._forget(group, list(self._expired(group, now)), now)

    def topics_gone(self, group: GroupMetadata, topics: Collection[str], now: int) -> None:
        """Delete the offsets of deleted topics, and an empty group that then has no offsets and no pending members.

        In a new topic of the same name, the offsets would refer to other records.
        """
        if wheres := [where for where in group.offsets.positions if where.topic in topics]:
            self._forget(group, wheres, now)

    def _forget(self, group: GroupMetadata, wheres: list[TopicPartition], now: int) -> None:
        nothing_left = len(wheres) == len(group.offsets.positions) and not group.offsets.on_the_way
        group_too = nothing_left and group.state is S.EMPTY and not group.members.pending
        if not wheres and not group_too:
            return

        def then(error: E, later: int) -> None:
            if error is not E.NONE:
                if group.state is not S.DEAD:
                    self._outbox.note(GroupNotWritten(group.id, "the deletion of its offsets", error))
                return
            self._outbox.note(OffsetsExpired(group.id, len(wheres), group_too))
            if group_too:
                self._groups.remove_if_gone(group, later)

        self._bury(group, wheres, group_too, now, then)

    def _expired(self, group: GroupMetadata, now: int) -> Iterator[TopicPartition]:
        """Yield the partitions whose offsets have expired (KIP-211).

        In an empty group, the age of an offset counts from the time when the group became empty. In a group that only
        stores offsets, it counts from the commit. In a stable consumer group whose subscriptions are known, it also
        counts from the commit, and only offsets of topics to which no member subscribes expire. In other groups,
        offsets do not expire. An expiration time that the client has set replaces the age.
        """

        def since_empty(position: OffsetAndMetadata) -> int:
            return group.since_ms if group.since_ms >= 0 else position.committed_ms

        def since_commit(position: OffsetAndMetadata) -> int:
            return position.committed_ms

        retention = self._settings.offsets_retention_ms
        if group.protocol_type is None:
            yield from group.offsets.expired(now, retention, since_commit)
        elif group.state is S.EMPTY:
            yield from group.offsets.expired(now, retention, since_empty)
        elif group.state is S.STABLE and group.protocol_type == CONSUMER and group.subscribed is not None:
            yield from group.offsets.expired(now, retention, since_commit, group.subscribed)

    def _bury(
        self,
        group: GroupMetadata,
        wheres: Collection[TopicPartition],
        group_too: bool,
        now: int,
        then: Callable[[E, int], None],
    ) -> None:
        """Write tombstones for offsets and, with `group_too`, for the group. Call `then` once, when every write has
        succeeded or failed, with an error if one has failed.

        Offsets and members that arrive meanwhile have later records in the topic, so they stay. A group with a
        generation gets a tombstone even if no record of it is known: the write of one may be pending, or have timed
        out, and the record would bring the group back at the next coordinator.
        """
        records: list[Record] = [OffsetRecord(group.id, where, None) for where in wheres]
        if group_too and (group.saved_at >= 0 or group.generation > 0):
            records.append(GroupRecord(group.id, None))
        chunks = [
            tuple(records[first : first + TOMBSTONES_PER_BATCH])
            for first in range(0, len(records), TOMBSTONES_PER_BATCH)
        ]
        if not chunks:
            then(E.NONE, now)
            return
        waiting = len(chunks)
        failed = E.NONE
        group.offsets.begin(wheres)

        def finished(chunk: tuple[Record, ...]) -> Callable[[E, int, int], None]:
            def done(error: E, at: int, later: int) -> None:
                nonlocal waiting, failed
                waiting -= 1
                for index, record in enumerate(chunk):
                    if isinstance(record, OffsetRecord):
                        if error is E.NONE:
                            group.offsets.drop(record.where, at + index)
                        group.offsets.end((record.where,))
                    elif error is E.NONE and at + index > group.saved_at:
                        group.saved_at = -1
                failed = failed if error is E.NONE else error
                if not waiting:
                    then(failed, later)

            return done

        for chunk in chunks:
            self._groups.store(group, chunk, now, finished(chunk))
