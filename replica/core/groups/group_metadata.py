"""One group: its state, generation, members and offsets."""

from __future__ import annotations

from attrs import define, field

from replica.core.errors import ErrorCode
from replica.core.groups.group_effects import SavedGroup, SavedMember, StateChanged
from replica.core.groups.group_members import GroupMembers, MemberMetadata
from replica.core.groups.group_messages import (
    DescribedGroup,
    DescribedMember,
    GroupIdentity,
    MemberEntry,
    SupportedProtocol,
)
from replica.core.groups.group_offsets import GroupOffsets
from replica.core.groups.group_states import GroupState, may
from replica.core.groups.member_memory import MemberMemory

CONSUMER = "consumer"
"""The only protocol type whose metadata the coordinator parses: it contains the subscribed topics."""


@define
class InitialDelay:
    """The delay before the rebalance of a group that was empty completes (`group.initial.rebalance.delay.ms`)."""

    left_ms: int
    """The remaining time by which the delay may be extended."""
    newcomer: bool = False
    """True if a member joined since the delay began or was last extended."""


@define(eq=False)
class GroupMetadata:
    """The state of one group, as Kafka's class of this name. Methods change only this group and the memory counter."""

    id: str
    partition: int
    """The partition of the offsets topic to which the group id hashes."""
    since_ms: int
    """The time at which the group entered its state; -1: unknown."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    """The member id of the leader; None if the group is empty."""
    members: GroupMembers = field(factory=GroupMembers)
    unsynced: dict[str, None] = field(factory=dict)
    """The members that have joined this generation, but have not sent SyncGroup yet."""
    assigning: int | None = None
    """The generation whose assignment is being written, or None."""
    initial_delay: InitialDelay | None = None
    """Set only during the initial rebalance delay."""
    subscribed: frozenset[str] | None = frozenset()
    """The topics that this generation's members subscribe to; None: unknown."""
    saved_at: int = -1
    """The offset of the newest group metadata record in the offsets topic; -1 if there is none, or it was deleted."""
    offsets: GroupOffsets = field(factory=GroupOffsets)

    def transition_to(self, state: GroupState, now: int) -> StateChanged:
        assert may(self.state, state), f"group {self.id} cannot go from {self.state} to {state}"
        changed = StateChanged(self.id, self.state, state, self.generation, len(self.members))
        self.state = state
        self.since_ms = now
        return changed

    def member_error(self, identity: GroupIdentity) -> ErrorCode | None:
        """Return the error for a request in the name of a member, or None.

        FENCED_INSTANCE_ID   the static instance has another member id now
        UNKNOWN_MEMBER_ID    the group has no such instance or member
        """
        if identity.instance is not None:
            current = self.members.statics.get(identity.instance)
            if current is not None and current != identity.member:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        if identity.member not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    # -- members ----------------------------------------------------------------------------------

    def add(self, member: MemberMetadata, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members.add(member)
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: MemberMetadata) -> None:
        self.members.remove(member)
        self.unsynced.pop(member.id, None)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: MemberMetadata, new: str) -> None:
        """Give a restarted static member a new id."""
        old = member.id
        self.members.rename(member, new)
        if self.leader == old:
            self.leader = new
        if old in self.unsynced:
            del self.unsynced[old]
            self.unsynced[new] = None

    def understands(self, protocol_type: str, protocols: tuple[SupportedProtocol, ...]) -> bool:
        """Return whether a member with this protocol type and these protocols may join. Neither may be empty. The group
        must be empty, or have this type and a protocol that the new member and all others support."""
        if not protocol_type or not protocols:
            return False
        if self.state is GroupState.EMPTY or not self.members:
            return True
        return protocol_type == self.protocol_type and self.members.share(protocols)

    def elect(self) -> bool:
        """Elect a leader among the members that have joined, preferably the former leader. Return False if none has
        joined."""
        current = self.members.get(self.leader) if self.leader is not None else None
        if current is not None and current.joining is not None:
            return True
        joined = next((member.id for member in self.members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    # -- conversions --------------------------------------------------------------------------------

    def entries(self) -> tuple[MemberEntry, ...]:
        return tuple(
            MemberEntry(member.id, member.instance, member.metadata(self.protocol)) for member in self.members.values()
        )

    def saved(self, assignments: dict[str, bytes], now: int) -> SavedGroup:
        return SavedGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            since_ms=now,
            members=tuple(
                SavedMember(
                    member.id,
                    member.instance,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(self.protocol),
                    assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ),
        )

    def described(self) -> DescribedGroup:
        """Describe the group. Only the description of a stable group has the protocol, metadata and assignments."""
        stable = self.state is GroupState.STABLE
        members = tuple(
            DescribedMember(
                member.id,
                member.instance,
                member.client_id,
                member.client_host,
                member.metadata(self.protocol) if stable else b"",
                member.assignment if stable else b"",
            )
            for member in self.members.values()
        )
        protocol = (self.protocol or "") if stable else ""
        return DescribedGroup(ErrorCode.NONE, self.state, self.protocol_type or "", protocol, members)

    @classmethod
    def load(cls, name: str, partition: int, saved: SavedGroup, now: int, memory: MemberMemory) -> GroupMetadata:
        group = cls(name, partition, saved.since_ms if saved.since_ms >= 0 else now, members=GroupMembers(memory))
        for entry in saved.members:
            protocols = (SupportedProtocol(saved.protocol or "", entry.subscription),)
            group.add(
                MemberMetadata(
                    entry.member,
                    entry.instance,
                    entry.client_id,
                    entry.client_host,
                    entry.rebalance_timeout_ms,
                    entry.session_timeout_ms,
                    protocols,
                    entry.assignment,
                ),
                saved.protocol_type,
            )
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.generation = saved.generation
        group.protocol_type = saved.protocol_type or None
        group.protocol = saved.protocol if group.members else None
        group.leader = saved.leader if saved.leader in group.members else next(iter(group.members), None)
        return group
