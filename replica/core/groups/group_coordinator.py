"""The coordinator of groups on one broker, as Kafka's `GroupCoordinator`.

    coordinator.topic.role_taken(taken, now)      this broker became the leader of an offsets partition, or gave it up
    coordinator.step(ticket, ask, now)            handle a request, which is answered once, under its ticket
    coordinator.topic.appended(append.id, NONE, offset, now)    records are committed, the first at this offset
    coordinator.tick(now)                         `coordinator.deadline` has passed
    ready = coordinator.ready()                   the effects; call it after each of these

A group id hashes to a partition of the offsets topic. The leader of that partition is the group's coordinator, and all
state that the next coordinator needs is in the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Self

from kraft_controller.core.names import OFFSETS_TOPIC
from replica.core.coordinator_topic import CoordinatorOutbox, CoordinatorReady, CoordinatorTopic, Load
from replica.core.groups.group_effects import (
    GroupAppend,
    GroupReady,
    GroupsLoaded,
    GroupsUnloaded,
    MemberRefused,
    Note,
    Record,
)
from replica.core.groups.group_expiration import GroupExpiration
from replica.core.groups.group_loading import GroupLoading
from replica.core.groups.group_membership import GroupMembership
from replica.core.groups.group_messages import (
    Ask,
    Commit,
    CommitInTransaction,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    DescribedGroup,
    DescribeGroup,
    GroupDeleted,
    GroupOverview,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    ListedGroups,
    ListGroups,
    MembersLeft,
    OffsetFetch,
    OffsetsDeleted,
    OffsetsFetched,
    Reply,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_metadata_manager import E, GroupMetadataManager
from replica.core.groups.group_rebalance import GroupRebalance
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_timers import GroupTimer, GroupTimers, TimerKind
from replica.core.groups.member_memory import of_request
from replica.core.groups.offset_commits import OffsetCommits, names_member

NAME_MAX: Final = 0x7FFF
"""The maximum length of a group id in a record of the offsets topic, in bytes of UTF-8."""


class GroupCoordinator:
    """Coordinates the groups of the offsets partitions that this broker leads."""

    def __init__(
        self,
        settings: GroupSettings,
        now: int,
        new_id: Callable[[], str],
        topics_of: Callable[[bytes], frozenset[str] | None],
    ) -> None:
        self._settings = settings
        self._outbox = CoordinatorOutbox[Reply, GroupAppend, Note]()
        self.topic = CoordinatorTopic[GroupMetadata, GroupLoading](
            OFFSETS_TOPIC, self._outbox, GroupLoading, self._lost
        )
        self._timers = GroupTimers()
        self.groups = GroupMetadataManager(self.topic, self._outbox)
        self._rebalance = GroupRebalance(settings, topics_of, self.groups, self._timers, self._outbox)
        self._membership = GroupMembership(settings, new_id, self._rebalance, self.groups, self._timers, self._outbox)
        self._commits = OffsetCommits(settings, self._membership, self.groups, self._outbox)
        self._expiration = GroupExpiration(settings, self.groups, self._outbox)
        self._next_expiration = now + settings.offsets_retention_check_interval_ms

    def succeed(self, former: Self) -> None:
        self.topic.succeed(former.topic)

    # -- partitions ----------------------------------------------------------------------------------------

    def replay(self, load: Load, offset: int, record: Record, producer: int | None = None) -> None:
        """Apply a record of the topic, in log order. `producer`: the id of its transactional producer, or None."""
        if (found := self.topic.found(load)) is not None:
            found.replay(offset, record, producer)

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """Apply the transaction marker of a producer."""
        if (found := self.topic.found(load)) is not None:
            found.replay_end(offset, producer, committed)

    def loaded(self, load: Load, now: int) -> None:
        """Coordinate the groups of a loaded partition from now on."""
        found = self.topic.found(load)
        if found is None:
            return
        groups = found.build(load.partition, now, self.groups.memory)
        epoch = self.topic.serve(load, groups)
        self.groups.load(load, groups)
        count = sum(len(group.offsets.positions) for group in groups.values())
        self._outbox.note(GroupsLoaded(load.partition, epoch, len(groups), count))
        for group in groups.values():
            self._rebalance.take_over(group, now)

    def _lost(self, partition: int, groups: dict[str, GroupMetadata], now: int) -> None:
        for group in groups.values():
            self._membership.dismiss(group)
            self._rebalance.dismiss(group, now)
        self.groups.unload(partition)
        self._outbox.note(GroupsUnloaded(partition, len(groups)))

    # -- requests ----------------------------------------------------------------------------------------

    def step(self, ticket: Ticket, ask: Ask, now: int) -> None:
        """Handle a request. Refuse it if this broker does not coordinate the group.

        While the group is being loaded, Heartbeat succeeds, and SyncGroup is answered with REBALANCE_IN_PROGRESS, as in
        Kafka's GroupCoordinator. A missing group is created by a JoinGroup without a member id, an OffsetCommit without
        a generation, or a TxnOffsetCommit that names no member. OffsetFetch and DescribeGroup of a missing group
        succeed; other requests fail.
        """
        match ask:
            case Join():
                self._on_join(ticket, ask, now)
            case Sync(identity):
                if (error := self._refusal(identity.group)) is not None:
                    # The assignment is unknown while the group loads. The member joins again later.
                    loading = error is E.COORDINATOR_LOAD_IN_PROGRESS
                    self._outbox.answer(ticket, Synced(E.REBALANCE_IN_PROGRESS if loading else error))
                elif (group := self.topic.find(identity.group)) is None:
                    self._outbox.answer(ticket, Synced(E.UNKNOWN_MEMBER_ID))
                else:
                    self._membership.on_sync(group, ticket, ask, now)
            case Heartbeat(identity):
                if (error := self._refusal(identity.group)) is not None:
                    # Members keep their assignments while the group loads.
                    loading = error is E.COORDINATOR_LOAD_IN_PROGRESS
                    self._outbox.answer(ticket, HeartbeatAnswered(E.NONE if loading else error))
                elif (group := self.topic.find(identity.group)) is None:
                    self._outbox.answer(ticket, HeartbeatAnswered(E.UNKNOWN_MEMBER_ID))
                else:
                    self._membership.on_heartbeat(group, ticket, ask, now)
            case Leave(name, leavers):
                if (error := self._refusal(name)) is not None:
                    self._outbox.answer(ticket, MembersLeft(error))
                elif (group := self.topic.find(name)) is None:
                    self._outbox.answer(
                        ticket, MembersLeft(E.NONE, tuple((leaver, E.UNKNOWN_MEMBER_ID) for leaver in leavers))
                    )
                else:
                    self._membership.on_leave(group, ticket, ask, now)
            case Commit():
                self._on_commit(ticket, ask, now)
            case CommitInTransaction():
                self._on_commit_in_transaction(ticket, ask, now)
            case OffsetFetch(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._outbox.answer(ticket, OffsetsFetched(error))
                else:
                    self._commits.on_fetch(self.topic.find(name), ticket, ask)
            case DescribeGroup(name):
                self._outbox.answer(ticket, self._described(name))
            case ListGroups():
                self._outbox.answer(ticket, self._listed(ask))
            case DeleteGroup(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._outbox.answer(ticket, GroupDeleted(error))
                elif (group := self.topic.find(name)) is None:
                    self._outbox.answer(ticket, GroupDeleted(E.GROUP_ID_NOT_FOUND))
                else:
                    self._expiration.on_delete(group, ticket, now)
            case DeleteOffsets(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._outbox.answer(ticket, OffsetsDeleted(error))
                elif (group := self.topic.find(name)) is None:
                    self._outbox.answer(ticket, OffsetsDeleted(E.GROUP_ID_NOT_FOUND))
                else:
                    self._expiration.on_delete_offsets(group, ticket, ask, now)

    def _refusal(self, group: str, *, nameless: bool = False) -> E | None:
        """Return the error if this coordinator cannot serve the group now. `nameless`: allow an empty group id."""
        if (not group and not nameless) or len(group.encode()) > NAME_MAX:
            return E.INVALID_GROUP_ID
        return self.topic.refusal(group)

    def _on_join(self, ticket: Ticket, ask: Join, now: int) -> None:
        """Check a JoinGroup and handle it, as Kafka's `GroupCoordinator.handleJoinGroup`. A missing group is created if
        the request has no member id."""
        name, settings = ask.identity.group, self._settings
        least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        error = self._refusal(name)
        held_max = settings.group_member_bytes_max
        if error is None and (held := of_request(ask)) > held_max:
            error = E.INVALID_REQUEST
            why = f"it would use about {held} bytes of memory, which exceeds the limit of {held_max} per member"
            self._outbox.note(MemberRefused(name, ask.identity.member or ask.client_id, error, why))
        if error is None and not least <= ask.session_timeout_ms <= most:
            error = E.INVALID_SESSION_TIMEOUT
        group = self.topic.find(name) if error is None else None
        if error is None and group is None and ask.identity.member:
            error = E.UNKNOWN_MEMBER_ID
        if error is not None:
            self._outbox.answer(ticket, Joined(error, member=ask.identity.member))
            return
        found = group if group is not None else self.groups.add(name, now)
        self._membership.on_join(found, ticket, ask, now)
        self.groups.remove_if_unused(found)

    def has_issued_on(self, connection: str) -> bool:
        """Return whether a member id that was sent on this connection is pending."""
        return connection in self._membership.issued

    def connection_closed(self, connection: str, now: int) -> None:
        self._membership.on_connection_closed(connection, self.topic.find, now)

    def _on_commit(self, ticket: Ticket, ask: Commit, now: int) -> None:
        name = ask.identity.group
        error = self._refusal(name, nameless=True)
        group = self.topic.find(name) if error is None else None
        if error is None and group is None and ask.identity.generation >= 0:
            error = E.ILLEGAL_GENERATION
        if error is not None:
            self._outbox.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        else:
            # A client that stores offsets without joining creates the group with its first commit.
            made = group if group is not None else self.groups.add(name, now)
            self._commits.on_commit(made, ticket, ask, now)
            self.groups.remove_if_unused(made)

    def _on_commit_in_transaction(self, ticket: Ticket, ask: CommitInTransaction, now: int) -> None:
        name = ask.identity.group
        error = self._refusal(name)
        group = self.topic.find(name) if error is None else None
        if error is None and group is None and names_member(ask.identity):
            error = E.UNKNOWN_MEMBER_ID
        if error is not None:
            self._outbox.answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        else:
            made = group if group is not None else self.groups.add(name, now)
            self._commits.on_commit_in_transaction(made, ticket, ask, now)
            self.groups.remove_if_unused(made)

    # -- queries -----------------------------------------------------------------------------------------

    def _described(self, name: str) -> DescribedGroup:
        if (error := self._refusal(name, nameless=True)) is not None:
            return DescribedGroup(error)
        group = self.topic.find(name)
        if group is None:
            return DescribedGroup(E.NONE)
        return group.described()

    def _listed(self, ask: ListGroups) -> ListedGroups:
        if not self.topic.is_counted():
            return ListedGroups(E.COORDINATOR_NOT_AVAILABLE)
        wanted = {state.lower() for state in ask.states}
        found = tuple(
            GroupOverview(group.id, group.protocol_type or "", group.state)
            for group in sorted(self.groups, key=lambda group: group.id)
            if not wanted or group.state.value.lower() in wanted
        )
        return ListedGroups(E.COORDINATOR_LOAD_IN_PROGRESS if self.topic.loading else E.NONE, found)

    # -- deadlines -----------------------------------------------------------------------------------------

    @property
    def deadline(self) -> int:
        timer = self._timers.next
        return self._next_expiration if timer is None else min(timer, self._next_expiration)

    def tick(self, now: int) -> None:
        while (timer := self._timers.pop(now)) is not None:
            group = self.topic.find(timer.group)
            if group is not None:
                self._on_timer(group, timer, now)
        if now >= self._next_expiration:
            self._next_expiration = now + self._settings.offsets_retention_check_interval_ms
            for group in list(self.groups):
                self._expiration.sweep(group, now)

    def _on_timer(self, group: GroupMetadata, timer: GroupTimer, now: int) -> None:
        match timer.kind:
            case TimerKind.SESSION:
                self._membership.on_session_timer(group, timer.member, now)
            case TimerKind.PENDING:
                self._membership.on_pending_timer(group, timer.member, now)
            case TimerKind.JOIN:
                self._rebalance.on_join_timer(group, now)
            case TimerKind.SYNC:
                self._rebalance.on_sync_timer(group, now)

    def forget_topics(self, topics: Collection[str], now: int) -> None:
        """Delete the offsets of deleted topics in all groups."""
        for group in list(self.groups):
            self._expiration.topics_gone(group, topics, now)

    # -- effects -------------------------------------------------------------------------------------------

    def ready(self) -> GroupReady:
        """Return the effects since the last call."""
        return CoordinatorReady(*self._outbox.take())
