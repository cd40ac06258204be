"""The records of the offsets topic, and the effects of a group coordinator, as values."""

from __future__ import annotations

from typing import TypeAlias

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, CoordinatorReady
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import OffsetAndMetadata, Reply
from replica.core.groups.group_states import Cause, GroupState
from zab.core.frozen import frozen

# -- records of the offsets topic ----------------------------------------------------------------------


@frozen
class OffsetRecord:
    """A committed offset; a tombstone if `position` is None."""

    group: str
    where: TopicPartition
    position: OffsetAndMetadata | None


@frozen
class SavedMember:
    member: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@frozen
class SavedGroup:
    """A group at one generation, with the assignments of its members; or an empty group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """The time of the record; for an empty group, the time at which it became empty. -1 in records of old brokers."""
    members: tuple[SavedMember, ...] = ()


@frozen
class GroupRecord:
    """The state of a group at the time of the record; a tombstone if `saved` is None."""

    group: str
    saved: SavedGroup | None


Record: TypeAlias = OffsetRecord | GroupRecord

# -- effects -------------------------------------------------------------------------------------------


@frozen
class GroupAppend:
    """A request to write records to a partition of the offsets topic as one batch.

    Call `appended` when they are committed, or the write has failed. Write only as the leader of the partition.
    """

    id: AppendId
    partition: int
    records: tuple[Record, ...]
    now_ms: int
    producer: tuple[int, int] | None = None
    """The id and epoch of the transactional producer, if the records belong to a transaction."""


@frozen
class StateChanged:
    group: str
    before: GroupState
    after: GroupState
    generation: int
    members: int


@frozen
class Rebalancing:
    group: str
    cause: Cause
    why: str
    generation: int


@frozen
class GroupsLoaded:
    partition: int
    epoch: int
    groups: int
    offsets: int


@frozen
class GroupsUnloaded:
    partition: int
    groups: int


@frozen
class GroupNotWritten:
    """A failed write that no request waits for."""

    group: str
    what: str
    error: ErrorCode


@frozen
class MemberRefused:
    """A refused join, with the reason. The client receives only the error code."""

    group: str
    member: str
    error: ErrorCode
    why: str


@frozen
class OffsetsExpired:
    group: str
    offsets: int
    group_too: bool


@frozen
class MemberDropped:
    """A member, or a pending member id, that was removed without a LeaveGroup."""

    group: str
    member: str
    why: str


Note: TypeAlias = (
    StateChanged
    | Rebalancing
    | MemberDropped
    | GroupsLoaded
    | GroupsUnloaded
    | GroupNotWritten
    | MemberRefused
    | OffsetsExpired
)

GroupReady: TypeAlias = CoordinatorReady[Reply, GroupAppend, Note]
