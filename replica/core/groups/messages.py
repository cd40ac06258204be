"""What clients ask of a coordinator and what it answers, without the differences between versions of the protocol.

A request comes with a ticket, and its answer goes out under it: at once, when a rebalance is over, or when a record is
safe in the offsets topic. Every ticket is answered once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinating import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.groups.states import GroupState

NO_GENERATION = -1
NO_MEMBER = ""


@frozen
class Offer:
    """A way of assigning that a member knows, and what it says about itself in its terms. Opaque to the coordinator."""

    name: str
    metadata: bytes


@frozen
class Identity:
    """Who in which group asks. `instance`: a static member's name, which outlives its member ids."""

    group: str
    member: str = NO_MEMBER
    generation: int = NO_GENERATION
    instance: str | None = None


@frozen
class Join:
    who: Identity
    protocol_type: str
    offers: tuple[Offer, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    id_first: bool = True
    """The client understands MEMBER_ID_REQUIRED: it comes again with the id that it is given."""
    can_skip: bool = False
    """The client understands that its group needs no new assignment, although it leads it."""
    reason: str = ""


@frozen
class MemberEntry:
    member: str
    instance: str | None
    metadata: bytes


@frozen
class Joined:
    error: ErrorCode
    member: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[MemberEntry, ...] = ()
    """For the leader only, who assigns."""
    skip_assignment: bool = False


@frozen
class Sync:
    who: Identity
    assignments: Mapping[str, bytes] = field(factory=dict)
    protocol_type: str | None = None
    protocol: str | None = None


@frozen
class Synced:
    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@frozen
class Heartbeat:
    who: Identity


@frozen
class Beaten:
    error: ErrorCode


@frozen
class Leaver:
    member: str
    instance: str | None = None
    reason: str = ""


@frozen
class Leave:
    group: str
    leavers: tuple[Leaver, ...]


@frozen
class Left:
    error: ErrorCode
    """Of all of them: then nobody is named."""
    each: tuple[tuple[Leaver, ErrorCode], ...] = ()


@frozen
class Position:
    """How far a group is in a partition.

    written   where in the offsets topic it stands: of two of them the later one holds. -1: not written yet
    expires   a time that was asked for explicitly, by an old client
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = -1
    expires_ms: int | None = None
    written: int = field(default=-1, eq=False)


@frozen
class Commit:
    who: Identity
    positions: Mapping[TopicPartition, Position]
    retention_ms: int = -1


@frozen
class CommitInTransaction:
    """Counts when the producer's transaction is committed, and never when it is aborted."""

    who: Identity
    producer: int
    epoch: int
    positions: Mapping[TopicPartition, Position]


@frozen
class Committed:
    """Which error for which partition; whatever is asked for is in it."""

    errors: Mapping[TopicPartition, ErrorCode]


@frozen
class Fetch:
    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    """None: whatever is there."""
    stable: bool = False
    """Rather nothing than a position which a transaction that is under way will replace."""


@frozen
class Fetched:
    error: ErrorCode
    positions: Mapping[TopicPartition, Position | ErrorCode | None] = field(factory=dict)
    """None: nothing was committed."""


@frozen
class Describe:
    group: str


@frozen
class DescribedMember:
    member: str
    instance: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@frozen
class Described:
    error: ErrorCode
    state: GroupState = GroupState.DEAD
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@frozen
class ListGroups:
    states: tuple[str, ...] = ()
    """By name, in any case of letters. None named: all."""


@frozen
class ListedGroup:
    group: str
    protocol_type: str
    state: GroupState


@frozen
class Listed:
    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


@frozen
class Delete:
    group: str


@frozen
class Deleted:
    error: ErrorCode


@frozen
class DeleteOffsets:
    group: str
    partitions: tuple[TopicPartition, ...]


@frozen
class OffsetsDeleted:
    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = field(factory=dict)


Ask: TypeAlias = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | Commit
    | CommitInTransaction
    | Fetch
    | Describe
    | ListGroups
    | Delete
    | DeleteOffsets
)
Reply: TypeAlias = Joined | Synced | Beaten | Left | Committed | Fetched | Described | Listed | Deleted | OffsetsDeleted
