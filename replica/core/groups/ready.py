"""What a coordinator remembers in the offsets topic, and what it wants from the world, as data."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core import coordinating
from replica.core.coordinating import AppendId as AppendId
from replica.core.coordinating import Load as Load
from replica.core.errors import ErrorCode
from replica.core.groups.messages import Position, Reply
from replica.core.groups.states import Cause, GroupState

# -- records of the offsets topic ----------------------------------------------------------------------


@frozen
class OffsetRecord:
    """`position` None: it was deleted, or has expired."""

    group: str
    where: TopicPartition
    position: Position | None


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
    """A generation whose assignment is known, or the group with nobody in it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """When it came into the state that it is in; -1 in records of old brokers."""
    members: tuple[SavedMember, ...] = ()


@frozen
class GroupRecord:
    """`saved` None: the group is gone."""

    group: str
    saved: SavedGroup | None


Record: TypeAlias = OffsetRecord | GroupRecord

# -- what the world should do --------------------------------------------------------------------------


@frozen
class Append:
    """Write these to a partition of the offsets topic, as one batch, and say `appended` when all in sync have it.

    Only as the leader under this epoch or a later one: who was deposed in between has not written anything.
    """

    id: AppendId
    partition: int
    epoch: int
    records: tuple[Record, ...]
    now_ms: int
    producer: tuple[int, int] | None = None
    """Id and epoch of whose transaction they are a part of."""


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
class Loaded:
    partition: int
    epoch: int
    groups: int
    offsets: int


@frozen
class Unloaded:
    partition: int
    groups: int


@frozen
class NotWritten:
    """Something that nobody is told of by an answer failed to be written."""

    group: str
    what: str
    error: ErrorCode


@frozen
class Refused:
    """A member that wanted in and may not, with more than its error code can say."""

    group: str
    member: str
    error: ErrorCode
    why: str


@frozen
class Expired:
    group: str
    offsets: int
    group_too: bool


@frozen
class Dropped:
    """A member that is not in its group any more, and did not say so itself."""

    group: str
    member: str
    why: str


Note: TypeAlias = StateChanged | Rebalancing | Dropped | Loaded | Unloaded | NotWritten | Refused | Expired

Ready: TypeAlias = coordinating.Ready[Reply, Append, Note]
