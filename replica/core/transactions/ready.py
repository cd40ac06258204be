"""What a coordinator remembers in the topic of transactions, and what it wants from the world, as data."""

from __future__ import annotations

from typing import NewType, TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core import coordinating
from replica.core.coordinating import AppendId as AppendId
from replica.core.coordinating import Load as Load
from replica.core.errors import ErrorCode
from replica.core.transactions.messages import Reply
from replica.core.transactions.states import TxnState

MarkerId = NewType("MarkerId", int)


@frozen
class Saved:
    """partitions   in order; of a transaction that is empty or complete there are none
    started_ms   -1: none was ever begun
    """

    producer: int
    epoch: int
    timeout_ms: int
    state: TxnState
    partitions: tuple[TopicPartition, ...] = ()
    updated_ms: int = -1
    started_ms: int = -1


@frozen
class TxnRecord:
    """`saved` None: nobody remembers it any more."""

    id: str
    saved: Saved | None


# -- what the world should do --------------------------------------------------------------------------


@frozen
class Append:
    """Write this to a partition of the topic, and say `appended` when all in sync have it.

    Only as the leader under this epoch or a later one: who was deposed in between has not written anything.
    """

    id: AppendId
    partition: int
    epoch: int
    record: TxnRecord
    now_ms: int
    timeout_ms: int


@frozen
class Marker:
    """Tell these partitions how the transaction ended, and say `marked` of each; for as long as it is awaited.

    partition   of the topic of transactions, whose leader we are
    """

    number: MarkerId
    id: str
    partition: int
    producer: int
    epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]


@frozen
class Moved:
    id: str
    producer: int
    epoch: int
    before: TxnState
    after: TxnState


@frozen
class TimedOut:
    """It was open for longer than its producer has said, and is aborted."""

    id: str
    producer: int
    epoch: int
    after_ms: int


@frozen
class Loaded:
    partition: int
    epoch: int
    transactions: int
    unfinished: int
    """Of these, decided, and not every partition may know."""


@frozen
class Unloaded:
    partition: int
    transactions: int


@frozen
class NotWritten:
    id: str
    state: TxnState
    error: ErrorCode


@frozen
class Stuck:
    """A partition does not take the end of a transaction from us, and will not. The next coordinator tries again."""

    id: str
    where: TopicPartition
    error: ErrorCode


@frozen
class Forgotten:
    """It was not used for so long."""

    id: str


Note: TypeAlias = Moved | TimedOut | Loaded | Unloaded | NotWritten | Stuck | Forgotten


@frozen
class Ready(coordinating.Ready[Reply, Append, Note]):
    markers: tuple[Marker, ...] = field(default=())
