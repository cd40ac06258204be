"""The records of the transactions topic, and the effects of a transaction coordinator, as values."""

from __future__ import annotations

from typing import NewType, TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import AppendId, CoordinatorReady
from replica.core.errors import ErrorCode
from replica.core.transactions.transaction_messages import Reply
from replica.core.transactions.transaction_states import TxnState

MarkerId = NewType("MarkerId", int)


@frozen
class Saved:
    """The recorded state of a transactional id."""

    producer: int
    epoch: int
    timeout_ms: int
    state: TxnState
    partitions: tuple[TopicPartition, ...] = ()
    """The partitions of the transaction, sorted; none in the states Empty, CompleteCommit and CompleteAbort."""
    updated_ms: int = -1
    started_ms: int = -1
    """The time at which the newest transaction started; -1 if there was none since the last InitProducerId."""


@frozen
class TxnRecord:
    """A record of the transactions topic: the state of a transactional id, or a tombstone if `saved` is None."""

    id: str
    saved: Saved | None


# -- effects -------------------------------------------------------------------------------------------


@frozen
class TransactionAppend:
    """A request to write a record to a partition of the transactions topic.

    Call `appended` when it is committed, or the write has failed. Write only as the leader of the partition.
    """

    id: AppendId
    partition: int
    record: TxnRecord
    now_ms: int
    timeout_ms: int


@frozen
class Marker:
    """A request to write the marker of a transaction to partitions.

    Call `marked` or `refused` for each partition. Stop when the coordinator no longer awaits the marker.
    """

    number: MarkerId
    id: str
    partition: int
    """The partition of the transactions topic to which the id hashes."""
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
    """A transaction that exceeded its timeout and is being aborted."""

    id: str
    producer: int
    epoch: int
    after_ms: int


@frozen
class TransactionsLoaded:
    partition: int
    epoch: int
    transactions: int
    unfinished: int
    """The number of decided transactions without a recorded completion: their markers are sent again."""


@frozen
class TransactionsUnloaded:
    partition: int
    transactions: int


@frozen
class TransactionNotWritten:
    id: str
    state: TxnState
    error: ErrorCode


@frozen
class TransactionStuck:
    """A marker that a partition refused. This coordinator does not send it again: the transaction stays incomplete at
    least until the next coordinator sends it."""

    id: str
    where: TopicPartition
    error: ErrorCode


@frozen
class TransactionExpired:
    """A transactional id that expired because it was not used."""

    id: str


Note: TypeAlias = (
    Moved
    | TimedOut
    | TransactionsLoaded
    | TransactionsUnloaded
    | TransactionNotWritten
    | TransactionStuck
    | TransactionExpired
)


@frozen
class TransactionReady(CoordinatorReady[Reply, TransactionAppend, Note]):
    """Work for the runtime."""

    markers: tuple[Marker, ...] = field(default=())
