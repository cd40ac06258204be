"""Requests to a group coordinator and its answers, without the differences between versions of the protocol.

A request has a ticket, which is answered once: at once, when a rebalance is over, or when a record is on all replicas
in sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.groups.group_states import GroupState

NO_GENERATION = -1
NO_MEMBER = ""


@frozen
class SupportedProtocol:
    """A protocol that a member supports, and its metadata for it. Opaque to the coordinator."""

    name: str
    metadata: bytes


@frozen
class GroupIdentity:
    """The sender of a request. `instance`: the name of a static member, which outlives its member ids."""

    group: str
    member: str = NO_MEMBER
    generation: int = NO_GENERATION
    instance: str | None = None


@frozen
class Join:
    who: GroupIdentity
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    id_first: bool = True
    """The client understands MEMBER_ID_REQUIRED, and joins again with the id that it receives."""
    can_skip: bool = False
    """The client understands that, as the leader, it may have to assign nothing."""
    reason: str = ""
    connection: str = ""
    """The id of the connection, which differs from all others of the broker."""


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
    """The members, for the leader only, which assigns."""
    skip_assignment: bool = False


@frozen
class Sync:
    who: GroupIdentity
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
    who: GroupIdentity


@frozen
class HeartbeatAnswered:
    error: ErrorCode


@frozen
class LeavingMember:
    member: str
    instance: str | None = None
    reason: str = ""


@frozen
class Leave:
    group: str
    leavers: tuple[LeavingMember, ...]


@frozen
class MembersLeft:
    error: ErrorCode
    """An error of the whole request. `each` is empty then."""
    each: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@frozen
class OffsetAndMetadata:
    """A committed offset of a group."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = -1
    expires_ms: int | None = None
    """An explicit expiration time, of an old client."""
    written: int = field(default=-1, eq=False)
    """The offset of its record in the offsets topic: the later of two holds. -1: not written yet."""


@frozen
class Commit:
    who: GroupIdentity
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    retention_ms: int = -1


@frozen
class CommitInTransaction:
    """A commit that holds when the producer's transaction commits, and never if it aborts."""

    who: GroupIdentity
    producer: int
    epoch: int
    positions: Mapping[TopicPartition, OffsetAndMetadata]


@frozen
class Committed:
    """The error of each partition of the request."""

    errors: Mapping[TopicPartition, ErrorCode]


@frozen
class OffsetFetch:
    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    """The requested partitions, or None for all."""
    stable: bool = False
    """Answer UNSTABLE_OFFSET_COMMIT for offsets that an open transaction may replace (KIP-447)."""


@frozen
class OffsetsFetched:
    error: ErrorCode
    positions: Mapping[TopicPartition, OffsetAndMetadata | ErrorCode | None] = field(factory=dict)
    """The committed offset of each partition, or None if there is none."""


@frozen
class DescribeGroup:
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
class DescribedGroup:
    error: ErrorCode
    state: GroupState = GroupState.DEAD
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@frozen
class ListGroups:
    states: tuple[str, ...] = ()
    """Names, in any case. None: all states."""


@frozen
class GroupOverview:
    group: str
    protocol_type: str
    state: GroupState


@frozen
class ListedGroups:
    error: ErrorCode
    groups: tuple[GroupOverview, ...] = ()


@frozen
class DeleteGroup:
    group: str


@frozen
class GroupDeleted:
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
    | OffsetFetch
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | DeleteOffsets
)
Reply: TypeAlias = (
    Joined
    | Synced
    | HeartbeatAnswered
    | MembersLeft
    | Committed
    | OffsetsFetched
    | DescribedGroup
    | ListedGroups
    | GroupDeleted
    | OffsetsDeleted
)
