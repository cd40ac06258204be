"""Requests to a group coordinator and its answers, independent of protocol versions.

Each request has a ticket, which is answered once: immediately, or later, for example at the end of a rebalance or when
a record is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.groups.group_states import GroupState
from zab.core.frozen import frozen

NO_GENERATION = -1
NO_MEMBER = ""


@frozen
class SupportedProtocol:
    """A protocol that a member supports, with the member's metadata, which is opaque to the coordinator."""

    name: str
    metadata: bytes


@frozen
class GroupIdentity:
    """The sender of a request. `instance`: the instance id of a static member, which stays the same across restarts."""

    group: str
    member: str = NO_MEMBER
    generation: int = NO_GENERATION
    instance: str | None = None


@frozen
class Join:
    identity: GroupIdentity
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    id_first: bool = True
    """True if the client supports MEMBER_ID_REQUIRED: it joins again with the id that it receives."""
    can_skip: bool = False
    """True if the client supports `skip_assignment`."""
    reason: str = ""
    connection: str = ""
    """A unique id of the client's connection."""


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
    """The members; empty for all but the leader, which computes the assignment."""
    skip_assignment: bool = False


@frozen
class Sync:
    identity: GroupIdentity
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
    identity: GroupIdentity


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
    """An error of the whole request; then `each` is empty."""
    each: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@frozen
class OffsetAndMetadata:
    """An offset that a group commits or has committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = -1
    expires_ms: int | None = None
    """An explicit expiration time, which only old clients set."""
    written: int = field(default=-1, eq=False)
    """The offset of its record in the offsets topic; -1: not written yet. The latest record wins."""


@frozen
class Commit:
    identity: GroupIdentity
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    retention_ms: int = -1


@frozen
class CommitInTransaction:
    """A commit within a producer's transaction. It takes effect when the transaction commits."""

    identity: GroupIdentity
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
    """Require stable offsets (KIP-447): return UNSTABLE_OFFSET_COMMIT if an open transaction may replace the offset."""


@frozen
class OffsetsFetched:
    error: ErrorCode
    positions: Mapping[TopicPartition, OffsetAndMetadata | ErrorCode | None] = field(factory=dict)
    """The committed offset of each partition, None if there is none, or an error."""


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
    """State names, in any case; empty: all states."""


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
