"""One group and its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from replica.core.errors import ErrorCode
from replica.core.groups.group_effects import SavedGroup, SavedMember, StateChanged
from replica.core.groups.group_messages import (
    DescribedGroup,
    DescribedMember,
    GroupIdentity,
    MemberEntry,
    Offer,
    Ticket,
)
from replica.core.groups.group_offsets import GroupOffsets
from replica.core.groups.group_states import GroupState, may
from replica.core.groups.member_memory import MEMBER_BYTES, MemberMemory, of_offers, of_words

CONSUMER = "consumer"
"""The only protocol type whose metadata the coordinator parses: the topics that members subscribe to."""


@define(eq=False)
class MemberMetadata:
    """One member of a group."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    offers: tuple[Offer, ...]
    assignment: bytes = b""
    joining: Ticket | None = None
    """The join that waits for an answer."""
    syncing: Ticket | None = None
    """The sync that waits for an answer."""
    is_new: bool = False
    """True until the first join is answered: the member has no id yet, so it cannot send heartbeats."""

    @property
    def said_bytes(self) -> int:
        words = of_words(self.id, self.instance, self.client_id, self.client_host)
        return MEMBER_BYTES + words + of_offers(self.offers)

    @property
    def held_bytes(self) -> int:
        return self.said_bytes + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        return next((offer.metadata for offer in self.offers if offer.name == protocol), b"")


@define(eq=False)
class GroupMetadata:
    """The state of one group, as Kafka's class of this name. It changes only itself and the counter of memory."""

    id: str
    partition: int
    """The partition of the offsets topic that the name falls into."""
    since_ms: int
    """When the group entered its state."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    """A member, unless the group is empty."""
    members: dict[str, MemberMetadata] = field(factory=dict)
    statics: dict[str, str] = field(factory=dict)
    """The member of each static instance."""
    pending: dict[str, None] = field(factory=dict)
    """Member ids that were issued and have not joined yet."""
    unsynced: dict[str, None] = field(factory=dict)
    """Members of this generation that have not sent SyncGroup yet."""
    assigning: int | None = None
    """The generation whose assignment is being written."""
    delay_left: int | None = None
    """How much longer the initial rebalance delay may become; None outside of the delay."""
    newcomer: bool = False
    """True if a member joined during the current part of the initial delay."""
    subscribed: frozenset[str] | None = frozenset()
    """The topics of this generation's members; None: unknown."""
    saved_at: int = -1
    """The offset of the group's newest record in the offsets topic; -1: there is none."""
    offsets: GroupOffsets = field(factory=GroupOffsets)
    memory: MemberMemory = field(factory=MemberMemory)
    """Counts the memory of the members."""
    _support: Counter[str] = field(factory=Counter)
    """The number of members that support each protocol."""

    def transition_to(self, state: GroupState, now: int) -> StateChanged:
        assert may(self.state, state), f"group {self.id} cannot go from {self.state} to {state}"
        changed = StateChanged(self.id, self.state, state, self.generation, len(self.members))
        self.state = state
        self.since_ms = now
        return changed

    def member_error(self, who: GroupIdentity) -> ErrorCode | None:
        """Return the error of a request whose sender is not, or not any more, the member that it names."""
        if who.instance is not None:
            current = self.statics.get(who.instance)
            if current is not None and current != who.member:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        if who.member not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None

    # -- members ----------------------------------------------------------------------------------

    def add(self, member: MemberMetadata, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.unexpect(member.id)
        self.members[member.id] = member
        self.memory.bytes += member.held_bytes
        if member.instance is not None:
            self.statics[member.instance] = member.id
        if self.leader is None:
            self.leader = member.id
        self._support.update(_names(member.offers))

    def expect(self, ident: str) -> None:
        """Note that this member id was issued."""
        self.pending[ident] = None
        self.memory.bytes += _held_by_pending(ident)

    def unexpect(self, ident: str) -> None:
        if ident in self.pending:
            del self.pending[ident]
            self.memory.bytes -= _held_by_pending(ident)

    def remove(self, member: MemberMetadata) -> None:
        del self.members[member.id]
        self.memory.bytes -= member.held_bytes
        self.unsynced.pop(member.id, None)
        if member.instance is not None and self.statics.get(member.instance) == member.id:
            del self.statics[member.instance]
        self._withdraw(member.offers)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: MemberMetadata, new: str) -> None:
        """Give a restarted static member another id. It keeps its place in the order of members."""
        old = member.id
        member.id = new
        self.memory.bytes += of_words(new) - of_words(old)
        self.members = {entry.id: entry for entry in self.members.values()}
        assert member.instance is not None
        self.statics[member.instance] = new
        if self.leader == old:
            self.leader = new
        if old in self.unsynced:
            del self.unsynced[old]
            self.unsynced[new] = None

    def change(self, member: MemberMetadata, offers: tuple[Offer, ...], rebalance_ms: int, session_ms: int) -> None:
        self._withdraw(member.offers)
        self._support.update(_names(offers))
        self.memory.bytes += of_offers(offers) - of_offers(member.offers)
        member.offers = offers
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def give(self, assignments: Mapping[str, bytes]) -> None:
        """Set all assignments. Members that are not named have none from here on."""
        for member in self.members.values():
            given = assignments.get(member.id, b"")
            self.memory.bytes += len(given) - len(member.assignment)
            member.assignment = given

    def close(self) -> None:
        """Stop counting what the members hold."""
        self.memory.bytes -= self.held_bytes
        self.memory = MemberMemory()

    @property
    def held_bytes(self) -> int:
        """The bytes that the members hold, counted anew."""
        members = sum(member.held_bytes for member in self.members.values())
        return members + sum(_held_by_pending(ident) for ident in self.pending)

    def _withdraw(self, offers: tuple[Offer, ...]) -> None:
        """Forget protocols that no member offers: their number is unlimited."""
        for name in _names(offers):
            self._support[name] -= 1
            if not self._support[name]:
                del self._support[name]

    # -- protocols --------------------------------------------------------------------------

    def understands(self, protocol_type: str, offers: tuple[Offer, ...]) -> bool:
        """Return whether a member with these offers shares a protocol with all members."""
        if not protocol_type or not offers:
            return False
        if self.state is GroupState.EMPTY or not self.members:
            return True
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self._support[offer.name] == everybody for offer in offers)

    def choose(self) -> str:
        """Return the protocol with most votes. Each member votes for its first offer that all members share."""
        everybody = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(offer.name for offer in member.offers if self._support[offer.name] == everybody)] += 1
        return votes.most_common(1)[0][0]

    def elect(self) -> bool:
        """Elect a leader among the members that joined, the former one if it did. Return False if none has joined."""
        current = self.members.get(self.leader) if self.leader is not None else None
        if current is not None and current.joining is not None:
            return True
        joined = next((member.id for member in self.members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    @property
    def everybody_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def waiting_to_join(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- as values ----------------------------------------------------------------------------------

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
        """Describe the group. Metadata and assignments are shown in a stable group only."""
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
        group = cls(name, partition, saved.since_ms if saved.since_ms >= 0 else now, memory=memory)
        for entry in saved.members:
            offers = (Offer(saved.protocol or "", entry.subscription),)
            group.add(
                MemberMetadata(
                    entry.member,
                    entry.instance,
                    entry.client_id,
                    entry.client_host,
                    entry.rebalance_timeout_ms,
                    entry.session_timeout_ms,
                    offers,
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


def _held_by_pending(ident: str) -> int:
    return MEMBER_BYTES + of_words(ident)


def _names(offers: tuple[Offer, ...]) -> dict[str, int]:
    return dict.fromkeys((offer.name for offer in offers), 1)
