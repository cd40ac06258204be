"""The records of the offsets topic, and the effects of a group coordinator, as values."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, CoordinatorReady
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import OffsetAndMetadata, Reply
from replica.core.groups.group_states import Cause, GroupState

# -- records of the offsets topic ----------------------------------------------------------------------


@frozen
class OffsetRecord:
    """A committed offset. `position` None: a tombstone."""

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
    """A generation with its assignment, or an empty group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """The time at which the group entered its state; -1 in records of old brokers."""
    members: tuple[SavedMember, ...] = ()


@frozen
class GroupRecord:
    """A group. `saved` None: a tombstone."""

    group: str
    saved: SavedGroup | None


Record: TypeAlias = OffsetRecord | GroupRecord

# -- effects -------------------------------------------------------------------------------------------


@frozen
class GroupAppend:
    """Write records to a partition of the offsets topic, as one batch, and report `appended` when all replicas in sync
    have it. Write it only as the leader in this epoch or a later one.
    """

    id: AppendId
    partition: int
    epoch: int
    records: tuple[Record, ...]
    now_ms: int
    producer: tuple[int, int] | None = None
    """Id and epoch of the producer whose transaction the records belong to."""


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
    """A record that no request waits for could not be written."""

    group: str
    what: str
    error: ErrorCode


@frozen
class MemberRefused:
    """A refused join, with more than its error code says."""

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
    """A member that was removed without leaving."""

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
