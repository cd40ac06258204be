"""Requests of members: join, sync, heartbeat, leave. Members whose session expires are removed."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve, frozen

from replica.core.coordinator_topic import CoordinatorOutbox
from replica.core.groups.group_effects import GroupAppend, GroupRecord, MemberDropped, MemberRefused, Note
from replica.core.groups.group_members import IssuedMemberIds, MemberMetadata
from replica.core.groups.group_messages import (
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    LeavingMember,
    MembersLeft,
    Reply,
    SupportedProtocol,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.group_metadata import GroupMetadata
from replica.core.groups.group_metadata_manager import E, GroupMetadataManager, group_error
from replica.core.groups.group_rebalance import GroupRebalance, joined
from replica.core.groups.group_settings import GroupSettings
from replica.core.groups.group_states import Cause, GroupState
from replica.core.groups.group_timers import GroupTimer, GroupTimers, TimerKind
from replica.core.groups.member_memory import of_join

S = GroupState


class GroupMembership:
    """Admits, replaces and removes the members of groups."""

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        rebalance: GroupRebalance,
        groups: GroupMetadataManager,
        timers: GroupTimers,
        outbox: CoordinatorOutbox[Reply, GroupAppend, Note],
    ) -> None:
        """`new_id` returns a unique suffix for a member id."""
        self._settings = settings
        self._new_id = new_id
        self._rebalance = rebalance
        self._groups = groups
        self._timers = timers
        self._outbox = outbox
        self.issued = IssuedMemberIds()

    # -- join --------------------------------------------------------------------------------------------

    def on_join(self, group: GroupMetadata, ticket: Ticket, ask: Join, now: int) -> None:
        identity = ask.identity
        if not self._has_room(group, identity.member):
            self._refuse(
                group,
                ticket,
                ask,
                E.GROUP_MAX_SIZE_REACHED,
                f"the group has {self._settings.group_max_size} members, the limit of group.max.size",
            )
            self._turn_away(group, identity.member, now)
        elif not self._has_memory(group, ask):
            most = self._settings.group_members_bytes_max
            used = self._groups.memory.bytes
            why = f"the members of all groups use {used} bytes, and this one would exceed the limit of {most}"
            self._refuse(group, ticket, ask, E.GROUP_MAX_SIZE_REACHED, why)
        elif not group.understands(ask.protocol_type, ask.protocols):
            self._refuse(group, ticket, ask, E.INCONSISTENT_GROUP_PROTOCOL, _disagreement(group, ask))
        elif not identity.member:
            self._on_newcomer(group, ticket, ask, now)
        elif identity.member in group.members.pending:
            if identity.instance is not None:  # the coordinator gave this member id to a dynamic member
                self._outbox.answer(ticket, Joined(E.UNKNOWN_MEMBER_ID, member=identity.member))
            else:
                self._add(group, ticket, ask, identity.member, now)
        elif (error := group.member_error(identity)) is not None:
            self._outbox.answer(ticket, Joined(error, member=identity.member))
        else:
            self._on_known(group, ticket, ask, group.members[identity.member], now)
        self._rebalance.try_complete(group, now)

    def _has_room(self, group: GroupMetadata, member: str) -> bool:
        most = self._settings.group_max_size
        known = group.members.get(member)
        match group.state:
            case S.PREPARING_REBALANCE:
                return (known is not None and known.joining is not None) or group.members.waiting_to_join < most
            case S.COMPLETING_REBALANCE | S.STABLE:
                return known is not None or len(group.members) < most
            case _:
                return True

    def _has_memory(self, group: GroupMetadata, ask: Join) -> bool:
        """Return whether the memory limit allows the join. A member that sends no more than before is admitted."""
        ident, instance = ask.identity.member, ask.identity.instance
        if not ident and instance is not None:
            ident = group.members.statics.get(instance, "")
        known = group.members.get(ident)
        more = of_join(ask, ident or instance or ask.client_id) - (known.said_bytes if known is not None else 0)
        return more <= 0 or self._groups.memory.bytes + more <= self._settings.group_members_bytes_max

    def _refuse(self, group: GroupMetadata, ticket: Ticket, ask: Join, error: E, why: str) -> None:
        self._outbox.note(MemberRefused(group.id, ask.identity.member or ask.client_id, error, why))
        self._outbox.answer(ticket, Joined(error, member=ask.identity.member))

    def _turn_away(self, group: GroupMetadata, ident: str, now: int) -> None:
        """Remove a member for which the group has no room."""
        if ident in group.members.pending:
            self._forget_pending(group, ident, now)
        elif ident in group.members:
            self._rebalance.drop(group, group.members[ident])

    def _on_newcomer(self, group: GroupMetadata, ticket: Ticket, ask: Join, now: int) -> None:
        instance = ask.identity.instance
        fresh = f"{instance if instance is not None else ask.client_id}-{self._new_id()}"
        if instance is not None:
            old = group.members.statics.get(instance)
            if old is None:
                self._add(group, ticket, ask, fresh, now)
            else:
                self._replace(group, ticket, ask, group.members[old], fresh, now)
        elif ask.id_first:
            # If the answer is lost, the client joins again without an id. A member added now would then remain until
            # its timeout; a pending member has no place in the generation (KIP-394).
            group.members.expect(fresh, ask.connection)
            self.issued.add(ask.connection, group.id, fresh)
            self._timers.set(GroupTimer(group.id, TimerKind.PENDING, fresh), now + ask.session_timeout_ms)
            self._outbox.answer(ticket, Joined(E.MEMBER_ID_REQUIRED, member=fresh))
        else:
            self._add(group, ticket, ask, fresh, now)

    def _add(self, group: GroupMetadata, ticket: Ticket, ask: Join, ident: str, now: int) -> None:
        member = MemberMetadata(
            ident,
            ask.identity.instance,
            ask.client_id,
            ask.client_host,
            ask.rebalance_timeout_ms,
            ask.session_timeout_ms,
            ask.protocols,
            joining=ticket,
            is_new=True,
        )
        self._timers.clear(GroupTimer(group.id, TimerKind.PENDING, ident))
        self.issued.discard(group.members.pending.get(ident), group.id, ident)
        if group.initial_delay is not None:
            group.initial_delay.newcomer = True
        group.add(member, ask.protocol_type)
        self._timers.set(
            GroupTimer(group.id, TimerKind.SESSION, ident), now + self._settings.new_member_join_timeout_ms
        )
        self._rebalance.maybe_begin(group, Cause.MEMBER_JOINED, _because(f"{ident} joined", ask), now)

    def _on_known(self, group: GroupMetadata, ticket: Ticket, ask: Join, member: MemberMetadata, now: int) -> None:
        same = member.protocols == ask.protocols
        leads = group.leader == member.id
        match group.state:
            case S.PREPARING_REBALANCE:
                self._rejoin(group, ticket, ask, member)
            case S.COMPLETING_REBALANCE if same:
                # The client has probably lost the answer, so repeat it.
                self._rebalance.restart_session(group, member, now)
                self._outbox.answer(ticket, joined(group, member))
            case S.STABLE if same and not leads:
                self._rebalance.restart_session(group, member, now)
                self._outbox.answer(ticket, joined(group, member))
            case S.COMPLETING_REBALANCE | S.STABLE:
                self._rejoin(group, ticket, ask, member)
                cause, what = (
                    (Cause.LEADER_REJOINED, "the leader") if same else (Cause.MEMBER_CHANGED, "changed metadata;")
                )
                self._rebalance.begin(group, cause, _because(f"{what} {member.id} joined again", ask), now)
            case _:
                self._outbox.answer(ticket, Joined(E.UNKNOWN_MEMBER_ID, member=member.id))

    def _rejoin(self, group: GroupMetadata, ticket: Ticket, ask: Join, member: MemberMetadata) -> None:
        group.members.change(member, ask.protocols, ask.rebalance_timeout_ms, ask.session_timeout_ms)
        if member.joining is not None:  # this answers the member's earlier request
            self._outbox.answer(member.joining, Joined(E.REBALANCE_IN_PROGRESS, member=member.id))
        member.joining = ticket

    def _replace(
        self, group: GroupMetadata, ticket: Ticket, ask: Join, member: MemberMetadata, fresh: str, now: int
    ) -> None:
        """Replace a static member after a restart. Its former process is fenced."""
        before = _Before(
            member.id, group.leader, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        )
        if member.joining is not None:
            self._outbox.answer(member.joining, Joined(E.FENCED_INSTANCE_ID, member=member.id))
        if member.syncing is not None:
            self._outbox.answer(member.syncing, Synced(E.FENCED_INSTANCE_ID))
            member.syncing = None
        self._rename(group, member, fresh, now)
        group.members.change(member, ask.protocols, ask.rebalance_timeout_ms, ask.session_timeout_ms)
        member.joining = ticket
        match group.state:
            case S.STABLE if group.members.choose() == group.protocol:
                self._keep(group, ticket, ask.can_skip, member, before, now)
            case S.STABLE | S.COMPLETING_REBALANCE:
                why = _because(f"{before.id} of instance {member.instance} was replaced by {fresh}", ask)
                self._rebalance.begin(group, Cause.STATIC_MEMBER_REPLACED, why, now)
            case _:
                pass  # a rebalance is in progress, and the new member takes part in it

    def _rename(self, group: GroupMetadata, member: MemberMetadata, new: str, now: int) -> None:
        self._timers.clear(GroupTimer(group.id, TimerKind.SESSION, member.id))
        group.rename(member, new)
        lives = self._settings.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
        self._timers.set(GroupTimer(group.id, TimerKind.SESSION, new), now + lives)

    def _keep(
        self, group: GroupMetadata, ticket: Ticket, can_skip: bool, member: MemberMetadata, before: _Before, now: int
    ) -> None:
        """Record the new member id, and keep the member's assignment without a rebalance (KIP-345, KIP-814). If the
        write fails, restore the former id."""
        assignments = {each.id: each.assignment for each in group.members.values()}

        def done(error: E, at: int, later: int) -> None:
            if error is E.NONE:
                group.saved_at = max(group.saved_at, at)
            if group.state is not S.STABLE or member.joining != ticket:
                return  # the member was replaced again or removed, or a rebalance answers its join
            member.joining = None
            if error is not E.NONE:
                group.members.change(member, before.protocols, before.rebalance_timeout_ms, before.session_timeout_ms)
                self._rename(group, member, before.id, later)
                self._outbox.answer(ticket, Joined(group_error(error)))
                return
            self._rebalance.restart_session(group, member, later)
            answer = joined(group, member)
            if group.leader == member.id and can_skip:
                answer = evolve(answer, skip_assignment=True)
            elif not can_skip:
                # A client that does not support `skip_assignment` would send an assignment if the answer named it as
                # the leader. So it receives the id of the leader before the replacement.
                answer = evolve(answer, leader=before.leader or "", members=())
            self._outbox.answer(ticket, answer)

        self._groups.store(group, (GroupRecord(group.id, group.saved(assignments, now)),), now, done)

    # -- sync, heartbeat -----------------------------------------------------------------------------------

    def on_sync(self, group: GroupMetadata, ticket: Ticket, ask: Sync, now: int) -> None:
        """Handle a SyncGroup, as Kafka's `GroupCoordinator.doSyncGroup`.

        The leader's request brings the assignment; the other members wait for it. In a stable group it is returned at
        once. The order of the checks is Kafka's: member id, generation, protocol, state.
        """
        identity = ask.identity
        error = group.member_error(identity)
        if error is None and identity.generation != group.generation:
            error = E.ILLEGAL_GENERATION
        if error is None and (
            (ask.protocol_type is not None and ask.protocol_type != group.protocol_type)
            or (ask.protocol is not None and ask.protocol != group.protocol)
        ):
            error = E.INCONSISTENT_GROUP_PROTOCOL
        if error is None and group.state is S.PREPARING_REBALANCE:
            error = E.REBALANCE_IN_PROGRESS
        if error is not None:
            self._outbox.answer(ticket, Synced(error))
            return
        member = group.members[identity.member]
        self._rebalance.synced(group, member)
        if member.syncing is not None:  # this answers the member's earlier request
            self._outbox.answer(member.syncing, Synced(E.REBALANCE_IN_PROGRESS))
        member.syncing = ticket
        if group.state is S.STABLE:
            self._rebalance.answer_sync(group, member, now)
        elif group.leader == member.id:
            self._rebalance.assign(group, dict(ask.assignments), now)

    def on_heartbeat(self, group: GroupMetadata, ticket: Ticket, ask: Heartbeat, now: int) -> None:
        error = group.member_error(ask.identity)
        if error is None and ask.identity.generation != group.generation:
            error = E.ILLEGAL_GENERATION
        if error is None:
            self.alive(group, group.members[ask.identity.member], now)
            if group.state is S.PREPARING_REBALANCE:
                error = E.REBALANCE_IN_PROGRESS
        self._outbox.answer(ticket, HeartbeatAnswered(error if error is not None else E.NONE))

    def alive(self, group: GroupMetadata, member: MemberMetadata, now: int) -> None:
        """Restart the session timeout. A new member, whose first JoinGroup is not answered yet, keeps its
        join timeout."""
        if not member.is_new:
            self._rebalance.restart_session(group, member, now)

    # -- members that leave or are removed -----------------------------------------------------------------

    def on_leave(self, group: GroupMetadata, ticket: Ticket, ask: Leave, now: int) -> None:
        each = tuple((leaver, self._leave(group, leaver, now)) for leaver in ask.leavers)
        self._outbox.answer(ticket, MembersLeft(E.NONE, each))

    def _leave(self, group: GroupMetadata, leaver: LeavingMember, now: int) -> E:
        ident = leaver.member
        if not ident and leaver.instance is not None:
            named = group.members.statics.get(leaver.instance)
            if named is None:
                return E.UNKNOWN_MEMBER_ID
            ident = named
        elif ident in group.members.pending:
            if leaver.instance is not None:
                return E.UNKNOWN_MEMBER_ID
            self._forget_pending(group, ident, now)
            return E.NONE
        elif (error := group.member_error(GroupIdentity(group.id, ident, instance=leaver.instance))) is not None:
            return error
        why = f"{ident} left" + (f": {leaver.reason}" if leaver.reason else "")
        self._rebalance.remove(group, group.members[ident], Cause.MEMBER_LEFT, why, now)
        return E.NONE

    def _forget_pending(self, group: GroupMetadata, ident: str, now: int) -> None:
        self.issued.discard(group.members.pending.get(ident), group.id, ident)
        group.members.unexpect(ident)
        self._timers.clear(GroupTimer(group.id, TimerKind.PENDING, ident))
        self._rebalance.try_complete(group, now)

    def on_pending_timer(self, group: GroupMetadata, ident: str, now: int) -> None:
        if ident in group.members.pending:
            self._outbox.note(
                MemberDropped(group.id, ident, "the client did not join with the member id that it received")
            )
            self._forget_pending(group, ident, now)

    def on_connection_closed(self, connection: str, find: Callable[[str], GroupMetadata | None], now: int) -> None:
        """Let rebalances complete without the pending members whose ids were sent on this connection.

        A client whose connection breaks before its member id arrives requests another one, so no client joins with the
        first id. Kafka's coordinator waits for that id until the session timeout. If the id did arrive, the client may
        still join with it until then, which may cause another rebalance.
        """
        groups: dict[str, GroupMetadata] = {}
        for name, ident in self.issued.take(connection):
            group = find(name)
            if group is not None and ident in group.members.pending:
                group.members.stop_awaiting(ident)
                groups[name] = group
        for group in groups.values():
            self._rebalance.try_complete(group, now)

    def dismiss(self, group: GroupMetadata) -> None:
        """Forget the pending ids of a group, because this broker gives up its partition."""
        for ident, connection in group.members.pending.items():
            self.issued.discard(connection, group.id, ident)

    def on_session_timer(self, group: GroupMetadata, ident: str, now: int) -> None:
        member = group.members.get(ident)
        if member is None:
            return
        if not member.is_new and (member.joining is not None or member.syncing is not None):
            return  # the session timeout restarts with the answer
        why = f"{ident} sent no heartbeat for {member.session_timeout_ms} ms, its session timeout"
        if member.is_new:
            why = f"the first join of {ident} was not answered in time, so its client may be gone"
        self._outbox.note(MemberDropped(group.id, ident, why))
        self._rebalance.remove(group, member, Cause.SESSION_EXPIRED, why, now)


def _disagreement(group: GroupMetadata, ask: Join) -> str:
    """Return why a join has no common protocol with the group. The text is for the log: clients get an error code."""
    if not ask.protocol_type or not ask.protocols:
        return "the join names no protocol type or no protocol"
    if ask.protocol_type != group.protocol_type:
        return f"the join's protocol type is {ask.protocol_type!r}, but the group's is {group.protocol_type!r}"
    supported = {each.name for each in ask.protocols}
    against = [
        f"{member.id} at {member.client_host} ({', '.join(each.name for each in member.protocols)})"
        for member in group.members.values()
        if not supported & {each.name for each in member.protocols}
    ]
    named = f"the join offers {', '.join(sorted(supported))}"
    if not against:
        return f"{named}: no protocol is common to all members"
    return f"{named}, none of which is supported by: {'; '.join(against)}"


def _because(what: str, ask: Join) -> str:
    return f"{what}: {ask.reason}" if ask.reason else what


@frozen
class _Before:
    """The state of a static member, and the leader of its group, before the member's replacement."""

    id: str
    leader: str | None
    protocols: tuple[SupportedProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
