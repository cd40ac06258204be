"""The members of one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, ValuesView

from attrs import define, field

from replica.core.groups.group_messages import SupportedProtocol, Ticket
from replica.core.groups.member_memory import MEMBER_BYTES, MemberMemory, of_protocols, of_words


@define(eq=False)
class MemberMetadata:
    """One member of a group."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    assignment: bytes = b""
    joining: Ticket | None = None
    """The ticket of the member's pending JoinGroup."""
    syncing: Ticket | None = None
    """The ticket of the member's pending SyncGroup."""
    is_new: bool = False
    """True until the member's first generation begins. The client waits for the answer to JoinGroup until then, so it
    sends no heartbeats."""

    @property
    def said_bytes(self) -> int:
        words = of_words(self.id, self.instance, self.client_id, self.client_host)
        return MEMBER_BYTES + words + of_protocols(self.protocols)

    @property
    def held_bytes(self) -> int:
        return self.said_bytes + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


@define(eq=False)
class GroupMembers(Mapping[str, MemberMetadata]):
    """The members of a group by id, in the order in which they joined."""

    memory: MemberMemory = field(factory=MemberMemory)
    """The counter of the memory used by the members of all groups."""
    statics: dict[str, str] = field(factory=dict)
    """The member id of each static instance."""
    pending: dict[str, str | None] = field(factory=dict)
    """The pending members: ids that were sent to clients that have not joined with them yet. The value is the
    connection on which the id was sent, or None after that connection closed."""
    awaited: int = 0
    """The number of pending ids whose connection is open: a rebalance waits for them."""
    _by_id: dict[str, MemberMetadata] = field(factory=dict)
    _support: Counter[str] = field(factory=Counter)
    """The number of members that support each protocol. No count is 0."""

    def __getitem__(self, ident: str) -> MemberMetadata:
        return self._by_id[ident]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def values(self) -> ValuesView[MemberMetadata]:
        return self._by_id.values()

    def __len__(self) -> int:
        return len(self._by_id)

    # -- changes -----------------------------------------------------------------------------------

    def add(self, member: MemberMetadata) -> None:
        self.unexpect(member.id)
        self._by_id[member.id] = member
        self.memory.bytes += member.held_bytes
        if member.instance is not None:
            self.statics[member.instance] = member.id
        self._support.update(_names(member.protocols))

    def expect(self, ident: str, connection: str) -> None:
        """Record that this member id was issued on this connection."""
        self.pending[ident] = connection
        self.awaited += 1
        self.memory.bytes += _held_by_pending(ident)

    def unexpect(self, ident: str) -> None:
        if ident in self.pending:
            self.stop_awaiting(ident)
            del self.pending[ident]
            self.memory.bytes -= _held_by_pending(ident)

    def stop_awaiting(self, ident: str) -> None:
        """Let rebalances no longer wait for this pending id."""
        if self.pending[ident] is not None:
            self.pending[ident] = None
            self.awaited -= 1

    def remove(self, member: MemberMetadata) -> None:
        del self._by_id[member.id]
        self.memory.bytes -= member.held_bytes
        if member.instance is not None and self.statics.get(member.instance) == member.id:
            del self.statics[member.instance]
        self._withdraw(member.protocols)

    def rename(self, member: MemberMetadata, new: str) -> None:
        """Give a restarted static member another id. It keeps its place in the order of members."""
        assert member.instance is not None
        self.memory.bytes += of_words(new) - of_words(member.id)
        member.id = new
        self._by_id = {entry.id: entry for entry in self._by_id.values()}
        self.statics[member.instance] = new

    def change(
        self, member: MemberMetadata, protocols: tuple[SupportedProtocol, ...], rebalance_ms: int, session_ms: int
    ) -> None:
        self._withdraw(member.protocols)
        self._support.update(_names(protocols))
        self.memory.bytes += of_protocols(protocols) - of_protocols(member.protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def give(self, assignments: Mapping[str, bytes]) -> None:
        """Set all assignments. Members that are not named get an empty one."""
        for member in self.values():
            given = assignments.get(member.id, b"")
            self.memory.bytes += len(given) - len(member.assignment)
            member.assignment = given

    def close(self) -> None:
        """Stop counting the memory of these members."""
        self.memory.bytes -= self.held_bytes
        self.memory = MemberMemory()

    @property
    def held_bytes(self) -> int:
        """The memory of the members in bytes, computed from scratch."""
        members = sum(member.held_bytes for member in self.values())
        return members + sum(_held_by_pending(ident) for ident in self.pending)

    def _withdraw(self, protocols: tuple[SupportedProtocol, ...]) -> None:
        """Subtract a member's protocols from the counts. Counts of 0 are deleted: clients may invent any number of
        protocol names."""
        for name in _names(protocols):
            self._support[name] -= 1
            if not self._support[name]:
                del self._support[name]

    # -- protocols ---------------------------------------------------------------------------------

    def share(self, protocols: tuple[SupportedProtocol, ...]) -> bool:
        """Return whether at least one of these protocols is supported by all members."""
        return any(self._support[each.name] == len(self._by_id) for each in protocols)

    def choose(self) -> str:
        """Return the protocol with the most votes. Each member votes for the first of its protocols that all members
        share."""
        count = len(self._by_id)
        votes: Counter[str] = Counter()
        for member in self.values():
            votes[next(each.name for each in member.protocols if self._support[each.name] == count)] += 1
        return votes.most_common(1)[0][0]

    @property
    def all_joined(self) -> bool:
        return not self.awaited and all(member.joining is not None for member in self.values())

    @property
    def waiting_to_join(self) -> int:
        return sum(member.joining is not None for member in self.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.values()), default=0)


class IssuedMemberIds:
    """The pending member ids of all groups, by the connection on which each was sent."""

    def __init__(self) -> None:
        self._by_connection: dict[str, dict[tuple[str, str], None]] = {}
        """Open connections only. Each has at least one id."""

    def __contains__(self, connection: str) -> bool:
        return connection in self._by_connection

    def add(self, connection: str, group: str, ident: str) -> None:
        self._by_connection.setdefault(connection, {})[group, ident] = None

    def discard(self, connection: str | None, group: str, ident: str) -> None:
        if connection is not None and (issued := self._by_connection.get(connection)) is not None:
            issued.pop((group, ident), None)
            if not issued:
                del self._by_connection[connection]

    def take(self, connection: str) -> Iterable[tuple[str, str]]:
        """Remove a connection, and return its pending ids, each with its group."""
        return self._by_connection.pop(connection, {})


def _held_by_pending(ident: str) -> int:
    return MEMBER_BYTES + of_words(ident)


def _names(protocols: tuple[SupportedProtocol, ...]) -> dict[str, int]:
    return dict.fromkeys((each.name for each in protocols), 1)
