"""A rebalance: all members join again, the coordinator elects a leader, and records the leader's assignment.

Members receive the assignment only when its record is committed, because the next coordinator must know the generation
in which members act.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replica.core.coordinator_topic import CoordinatorOutbox
from replica.core.groups.group_effects import (
    GroupAppend,
    GroupNotWritten,
    GroupRecord,
    MemberDropped,
    Note,
    Rebalancing,
)
from replica.core.groups.group_members import MemberMetadata
from replica.core.groups.group_messages import Joined, Reply, Synced
from replica.core.groups.group_metadata import CONSUMER, GroupMetadata, InitialDelay
from replica.core.groups.group_metadata_manager import E, GroupMetadataManager, group_error
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import Cause, GroupState, may
from replica.core.groups.group_timers import GroupTimer, GroupTimers, TimerKind

S = GroupState
AGAIN_MS: Final = 1_000
"""The shortest pause before checking again whether an absent static member has joined: its rebalance timeout may be 0.
"""


class GroupRebalance:
    """Runs rebalances, and keeps the session timers of members."""

    def __init__(
        self,
        settings: GroupSettings,
        topics_of: Callable[[bytes], frozenset[str] | None],
        groups: GroupMetadataManager,
        timers: GroupTimers,
        outbox: CoordinatorOutbox[Reply, GroupAppend, Note],
    ) -> None:
        """`topics_of` returns the topics in a consumer's metadata, or None if it cannot be parsed."""
        self._settings = settings
        self._topics_of = topics_of
        self._groups = groups
        self._timers = timers
        self._outbox = outbox

    def restart_session(self, group: GroupMetadata, member: MemberMetadata, now: int) -> None:
        self._timers.set(GroupTimer(group.id, TimerKind.SESSION, member.id), now + member.session_timeout_ms)

    def take_over(self, group: GroupMetadata, now: int) -> None:
        """Coordinate a loaded group. The last heartbeats are unknown, so each member gets its full session timeout.
        If the group is larger than `group.max.size`, begin a rebalance."""
        group.subscribed = self.subscribed(group) if group.members else frozenset()
        for member in group.members.values():
            self.restart_session(group, member, now)
        most = self._settings.group_max_size
        if len(group.members) > most:
            why = f"{len(group.members)} members were loaded, and group.max.size is {most}"
            self.begin(group, Cause.TOO_LARGE, why, now)

    def dismiss(self, group: GroupMetadata, now: int) -> None:
        """Drop a group whose partition this broker gives up. Pending JoinGroups and SyncGroups get NOT_COORDINATOR, so
        members look up the coordinator again."""
        for member in group.members.values():
            if member.joining is not None:
                self._outbox.answer(member.joining, Joined(E.NOT_COORDINATOR, member=member.id))
            if member.syncing is not None:
                self._outbox.answer(member.syncing, Synced(E.NOT_COORDINATOR))
            member.joining = member.syncing = None
            self._timers.clear(GroupTimer(group.id, TimerKind.SESSION, member.id))
        for ident in group.members.pending:
            self._timers.clear(GroupTimer(group.id, TimerKind.PENDING, ident))
        self._timers.clear(join_timer(group))
        self._timers.clear(sync_timer(group))
        self._outbox.note(group.transition_to(S.DEAD, now))
        group.members.close()

    # -- the beginning of a rebalance --------------------------------------------------------------------

    def maybe_begin(self, group: GroupMetadata, cause: Cause, why: str, now: int) -> None:
        """Begin a rebalance, unless the coordinator already waits for the members to join again."""
        if may(group.state, S.PREPARING_REBALANCE):
            self.begin(group, cause, why, now)

    def begin(self, group: GroupMetadata, cause: Cause, why: str, now: int) -> None:
        """Begin a rebalance. It completes when all members have joined, or when the longest of their rebalance timeouts
        has passed. If the group was empty, it completes after the initial delay, which further joins extend."""
        self._outbox.note(Rebalancing(group.id, cause, why, group.generation))
        if group.state is S.COMPLETING_REBALANCE:
            self._take_back(group, E.REBALANCE_IN_PROGRESS, now)
        self._timers.clear(sync_timer(group))
        group.unsynced.clear()
        group.assigning = None
        if group.state is S.EMPTY:
            # The members of a new group join one after another. Without the delay, each would begin another rebalance.
            delay = self._settings.group_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(max(group.members.rebalance_timeout_ms - delay, 0))
            self._timers.set(join_timer(group), now + delay)
        else:
            group.initial_delay = None
            self._timers.set(join_timer(group), now + group.members.rebalance_timeout_ms)
        self._outbox.note(group.transition_to(S.PREPARING_REBALANCE, now))
        self.try_complete(group, now)

    def _take_back(self, group: GroupMetadata, error: E, now: int) -> None:
        """Drop all assignments, and answer pending SyncGroups of this generation with an error."""
        group.members.give({})
        for member in group.members.values():
            if member.syncing is not None:
                self._outbox.answer(member.syncing, Synced(error))
                member.syncing = None
                self.restart_session(group, member, now)

    # -- all members join ---------------------------------------------------------------------------------

    def try_complete(self, group: GroupMetadata, now: int) -> None:
        """Complete the rebalance if all members have joined, no pending one is awaited, and no initial delay runs."""
        if group.state is S.PREPARING_REBALANCE and group.initial_delay is None and group.members.all_joined:
            self.complete(group, now)

    def on_join_timer(self, group: GroupMetadata, now: int) -> None:
        if group.state is not S.PREPARING_REBALANCE:
            return
        delay = group.initial_delay
        if delay is not None and delay.newcomer and delay.left_ms:
            more = min(self._settings.group_initial_rebalance_delay_ms, delay.left_ms)
            delay.newcomer = False
            delay.left_ms -= more
            self._timers.set(join_timer(group), now + more)
            return
        self.complete(group, now)

    def complete(self, group: GroupMetadata, now: int) -> None:
        """Remove the dynamic members that have not joined, and begin the next generation with the other members. If
        only absent static members are left, wait again. If no member is left, the group becomes Empty."""
        for member in [each for each in group.members.values() if each.joining is None and each.instance is None]:
            why = "it did not join again in time"
            self._outbox.note(MemberDropped(group.id, member.id, why))
            self.drop(group, member)
        group.initial_delay = None
        if group.members and not group.elect():
            self._timers.set(join_timer(group), now + max(group.members.rebalance_timeout_ms, AGAIN_MS))
            return
        self._timers.clear(join_timer(group))
        group.generation += 1
        group.unsynced.clear()
        if group.members:
            self._open(group, now)
        else:
            self._close(group, now)

    def _open(self, group: GroupMetadata, now: int) -> None:
        group.protocol = group.members.choose()
        group.subscribed = self.subscribed(group)
        self._outbox.note(group.transition_to(S.COMPLETING_REBALANCE, now))
        for member in group.members.values():
            if member.joining is None:
                continue  # an absent static member: its session timeout continues, and no SyncGroup is awaited from it
            member.is_new = False
            group.unsynced[member.id] = None
            self.answer_join(group, member, now)
        self._timers.set(sync_timer(group), now + group.members.rebalance_timeout_ms)

    def _close(self, group: GroupMetadata, now: int) -> None:
        group.protocol = None
        group.leader = None
        group.subscribed = frozenset()
        self._outbox.note(group.transition_to(S.EMPTY, now))

        def done(error: E, at: int, _: int) -> None:
            if error is E.NONE:
                group.saved_at = max(group.saved_at, at)
            elif group.state is not S.DEAD:
                self._outbox.note(GroupNotWritten(group.id, "the record of the empty group", error))

        self._groups.store(group, (GroupRecord(group.id, group.saved({}, now)),), now, done)

    def answer_join(self, group: GroupMetadata, member: MemberMetadata, now: int) -> None:
        """Answer a JoinGroup with the current generation. Only the leader receives the list of members."""
        assert member.joining is not None
        self._outbox.answer(member.joining, joined(group, member))
        member.joining = None
        self.restart_session(group, member, now)

    def subscribed(self, group: GroupMetadata) -> frozenset[str] | None:
        if group.protocol_type != CONSUMER or group.protocol is None:
            return None
        wanted: set[str] = set()
        for member in group.members.values():
            topics = self._topics_of(member.metadata(group.protocol))
            if topics is None:
                return None
            wanted |= topics
        return frozenset(wanted)

    # -- the leader's assignment -------------------------------------------------------------------------

    def assign(self, group: GroupMetadata, assignments: dict[str, bytes], now: int) -> None:
        """Write the leader's assignments. Members that the leader omits get an empty assignment."""
        if group.assigning == group.generation:
            return  # a repeated request: the first one's assignments are being written
        generation = group.assigning = group.generation
        given = {member: assignments.get(member, b"") for member in group.members}

        def done(error: E, at: int, later: int) -> None:
            if error is E.NONE:
                group.saved_at = max(group.saved_at, at)
            if group.state is not S.COMPLETING_REBALANCE or group.generation != generation:
                return  # another rebalance has begun meanwhile, or the group has moved
            if error is not E.NONE:
                self._take_back(group, group_error(error), later)
                why = f"its assignment could not be written: {error.name}"
                self.begin(group, Cause.NOT_WRITTEN, why, later)
                return
            group.members.give(given)
            group.assigning = None
            self._outbox.note(group.transition_to(S.STABLE, later))
            for member in group.members.values():
                if member.syncing is not None:
                    self.answer_sync(group, member, later)

        self._groups.store(group, (GroupRecord(group.id, group.saved(given, now)),), now, done)

    def answer_sync(self, group: GroupMetadata, member: MemberMetadata, now: int) -> None:
        assert member.syncing is not None
        self._outbox.answer(member.syncing, Synced(E.NONE, member.assignment, group.protocol_type, group.protocol))
        member.syncing = None
        self.restart_session(group, member, now)

    def synced(self, group: GroupMetadata, member: MemberMetadata) -> None:
        """Record that the member has sent SyncGroup."""
        group.unsynced.pop(member.id, None)
        if not group.unsynced:
            self._timers.clear(sync_timer(group))

    def on_sync_timer(self, group: GroupMetadata, now: int) -> None:
        if group.state not in (S.COMPLETING_REBALANCE, S.STABLE) or not group.unsynced:
            return
        late = list(group.unsynced)
        for ident in late:
            self._outbox.note(MemberDropped(group.id, ident, "it joined, but sent no SyncGroup in time"))
            self.drop(group, group.members[ident])
        self.begin(group, Cause.SYNC_EXPIRED, f"{', '.join(late)} sent no SyncGroup in time", now)

    # -- leaving members ---------------------------------------------------------------------------------

    def drop(self, group: GroupMetadata, member: MemberMetadata) -> None:
        """Remove a member. Its pending requests get UNKNOWN_MEMBER_ID, so the member joins again if it is alive."""
        if member.joining is not None:
            self._outbox.answer(member.joining, Joined(E.UNKNOWN_MEMBER_ID))
            member.joining = None
        if member.syncing is not None:
            self._outbox.answer(member.syncing, Synced(E.UNKNOWN_MEMBER_ID))
            member.syncing = None
        self._timers.clear(GroupTimer(group.id, TimerKind.SESSION, member.id))
        group.remove(member)

    def remove(self, group: GroupMetadata, member: MemberMetadata, cause: Cause, why: str, now: int) -> None:
        """Remove a member that left or expired. Begin a rebalance, unless members are already joining: then complete it
        if all others have joined."""
        self.drop(group, member)
        self.maybe_begin(group, cause, why, now)
        self.try_complete(group, now)


def join_timer(group: GroupMetadata) -> GroupTimer:
    return GroupTimer(group.id, TimerKind.JOIN)


def sync_timer(group: GroupMetadata) -> GroupTimer:
    return GroupTimer(group.id, TimerKind.SYNC)


def joined(group: GroupMetadata, member: MemberMetadata) -> Joined:
    return Joined(
        E.NONE,
        member=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.entries() if group.leader == member.id else (),
    )
