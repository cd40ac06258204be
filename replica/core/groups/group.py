"""One group: its members, who of them leads, what they all understand. Changes itself and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from replica.core.errors import ErrorCode
from replica.core.groups.holding import MEMBER_BYTES, Ledger, of_offers, of_words
from replica.core.groups.messages import Described, DescribedMember, MemberEntry, Offer, Ticket
from replica.core.groups.offsets import Offsets
from replica.core.groups.ready import SavedGroup, SavedMember
from replica.core.groups.states import GroupState

CONSUMER = "consumer"
"""The one protocol type of which the coordinator understands something: which topics its members want."""


@define(eq=False)
class Member:
    """joining, syncing     its request that waits for an answer
    is_new      it joins for the first time: it does not know its id, so it cannot send heartbeats
    """

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    offers: tuple[Offer, ...]
    assignment: bytes = b""
    joining: Ticket | None = None
    syncing: Ticket | None = None
    is_new: bool = False

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
class Group:
    """pending     ids that were given out, and whose owners have not come back with them yet
    unsynced    joined in this generation, and has not asked for its assignment yet
    assigning   the generation whose assignment is being written
    delay_left  an empty group waits a little for those who will join, too; how much may be added to that. None: over
    newcomer    somebody joined during the present piece of that delay
    subscribed  topics that the members of this generation want; None: not understood
    ledger      where it counts what its members hold
    saved_at    where its newest record stands in the offsets topic; -1: it has none
    """

    id: str
    partition: int
    since_ms: int
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(factory=dict)
    statics: dict[str, str] = field(factory=dict)
    pending: dict[str, None] = field(factory=dict)
    unsynced: dict[str, None] = field(factory=dict)
    assigning: int | None = None
    delay_left: int | None = None
    newcomer: bool = False
    subscribed: frozenset[str] | None = frozenset()
    saved_at: int = -1
    offsets: Offsets = field(factory=Offsets)
    ledger: Ledger = field(factory=Ledger)
    _support: Counter[str] = field(factory=Counter)

    # -- who is in it ----------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.unexpect(member.id)
        self.members[member.id] = member
        self.ledger.bytes += member.held_bytes
        if member.instance is not None:
            self.statics[member.instance] = member.id
        if self.leader is None:
            self.leader = member.id
        self._support.update(_names(member.offers))

    def expect(self, ident: str) -> None:
        """It was given this id."""
        self.pending[ident] = None
        self.ledger.bytes += _held_by_pending(ident)

    def unexpect(self, ident: str) -> None:
        if ident in self.pending:
            del self.pending[ident]
            self.ledger.bytes -= _held_by_pending(ident)

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self.ledger.bytes -= member.held_bytes
        self.unsynced.pop(member.id, None)
        if member.instance is not None and self.statics.get(member.instance) == member.id:
            del self.statics[member.instance]
        self._withdraw(member.offers)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, new: str) -> None:
        """A static member begins anew under another id. It keeps its place in the order of members."""
        old = member.id
        member.id = new
        self.ledger.bytes += of_words(new) - of_words(old)
        self.members = {entry.id: entry for entry in self.members.values()}
        assert member.instance is not None
        self.statics[member.instance] = new
        if self.leader == old:
            self.leader = new
        if old in self.unsynced:
            del self.unsynced[old]
            self.unsynced[new] = None

    def change(self, member: Member, offers: tuple[Offer, ...], rebalance_ms: int, session_ms: int) -> None:
        self._withdraw(member.offers)
        self._support.update(_names(offers))
        self.ledger.bytes += of_offers(offers) - of_offers(member.offers)
        member.offers = offers
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def give(self, assignments: Mapping[str, bytes]) -> None:
        """To each its own. Who is not named has nothing from here on."""
        for member in self.members.values():
            given = assignments.get(member.id, b"")
            self.ledger.bytes += len(given) - len(member.assignment)
            member.assignment = given

    def close(self) -> None:
        """It is not here any more, and what its members hold does not count."""
        self.ledger.bytes -= self.held_bytes
        self.ledger = Ledger()

    @property
    def held_bytes(self) -> int:
        """Counted anew."""
        members = sum(member.held_bytes for member in self.members.values())
        return members + sum(_held_by_pending(ident) for ident in self.pending)

    def _withdraw(self, offers: tuple[Offer, ...]) -> None:
        """Names that nobody knows any more are forgotten: there may be no end of them."""
        for name in _names(offers):
            self._support[name] -= 1
            if not self._support[name]:
                del self._support[name]

    # -- what they can agree on --------------------------------------------------------------------------

    def understands(self, protocol_type: str, offers: tuple[Offer, ...]) -> bool:
        """Somebody with these could be a member: there would be something that all of them know."""
        if not protocol_type or not offers:
            return False
        if self.state is GroupState.EMPTY or not self.members:
            return True
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self._support[offer.name] == everybody for offer in offers)

    def choose(self) -> str:
        """Each member has one vote, for the first of its offers that everybody knows. Of equals, the first."""
        everybody = len(self.members)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(offer.name for offer in member.offers if self._support[offer.name] == everybody)] += 1
        return votes.most_common(1)[0][0]

    def elect(self) -> bool:
        """Someone who has joined leads: whoever led before, if it is one of them. False: nobody has joined."""
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

    # -- as others see it ----------------------------------------------------------------------------------

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

    def described(self) -> Described:
        """What members said and got is shown when it is settled."""
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
        return Described(ErrorCode.NONE, self.state, self.protocol_type or "", protocol, members)

    @classmethod
    def load(cls, name: str, partition: int, saved: SavedGroup, now: int, ledger: Ledger) -> Group:
        group = cls(name, partition, saved.since_ms if saved.since_ms >= 0 else now, ledger=ledger)
        for entry in saved.members:
            offers = (Offer(saved.protocol or "", entry.subscription),)
            group.add(
                Member(
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
