"""The records of the topic of transactions, and the effects of a transaction coordinator, as values."""

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
    """In order. An empty or complete transaction has none."""
    updated_ms: int = -1
    started_ms: int = -1
    """-1: no transaction was ever begun."""


@frozen
class TxnRecord:
    """A transactional id. `saved` None: a tombstone."""

    id: str
    saved: Saved | None


# -- effects -------------------------------------------------------------------------------------------


@frozen
class TransactionAppend:
    """Write a record to a partition of the topic, and report `appended` when all replicas in sync have it. Write it
    only as the leader in this epoch or a later one."""

    id: AppendId
    partition: int
    epoch: int
    record: TxnRecord
    now_ms: int
    timeout_ms: int


@frozen
class Marker:
    """Write the marker of a transaction to partitions, and report `marked` for each, while the coordinator awaits
    it."""

    number: MarkerId
    id: str
    partition: int
    """The partition of the topic of transactions that the id falls into."""
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
    """A transaction was open for longer than its timeout, and is aborted."""

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
    """Decided transactions of which some partition may have no marker."""


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
    """A partition refuses a marker of this coordinator for good. The next coordinator tries again."""

    id: str
    where: TopicPartition
    error: ErrorCode


@frozen
class TransactionExpired:
    """An id that was not used for so long expired."""

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
