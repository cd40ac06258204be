"""Requests to a transaction coordinator and its answers, independent of protocol versions.

Each request has a ticket, which is answered exactly once: immediately, or when the write of a record succeeds or fails.
"""

from __future__ import annotations

from typing import Self, TypeAlias

from attrs import frozen

from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.coordinator_topic import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.groups.partitioning import partition_of
from replica.core.transactions.transaction_states import TxnState

NO_PRODUCER = -1
NO_EPOCH = -1
GREATEST_EPOCH = 2**15 - 1


@frozen
class ProducerIdentity:
    """The sender of a request: a transactional id, with the producer id and epoch that the producer uses."""

    id: str
    producer: int
    epoch: int


@frozen
class Init:
    """InitProducerId."""

    id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None
    """The id and epoch of a producer that resumes after an error; None for a new producer."""
    fresh: int | None = None
    """An unused producer id, in case one is needed."""


@frozen
class Initialized:
    error: ErrorCode
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH


@frozen
class NeedsId:
    """The answer that the request needs an unused producer id. Nothing has changed: repeat the request with one."""


@frozen
class AddPartitions:
    identity: ProducerIdentity
    partitions: frozenset[TopicPartition]

    @classmethod
    def storing_offsets(cls, identity: ProducerIdentity, group: str, partitions: int) -> Self:
        """AddOffsetsToTxn: add the partition that stores the offsets of the group, of so many partitions of the offsets
        topic."""
        return cls(identity, frozenset((TopicPartition(OFFSETS_TOPIC, partition_of(group, partitions)),)))


@frozen
class End:
    identity: ProducerIdentity
    commit: bool


@frozen
class TransactionDone:
    """The answer to `AddPartitions` and `End`: one error for all partitions."""

    error: ErrorCode


@frozen
class DescribeTransaction:
    id: str


@frozen
class DescribedTransaction:
    """The state of a transaction. `partitions`: after the decision, only those without a marker."""

    error: ErrorCode
    state: TxnState = TxnState.DEAD
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    started_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@frozen
class ListTransactions:
    """A filter for transactions. Empty sets and -1 match everything."""

    states: frozenset[TxnState] = frozenset()
    producers: frozenset[int] = frozenset()
    longer_than_ms: int = -1


@frozen
class TransactionOverview:
    id: str
    producer: int
    state: TxnState


@frozen
class ListedTransactions:
    error: ErrorCode
    transactions: tuple[TransactionOverview, ...] = ()


Ask: TypeAlias = Init | AddPartitions | End | DescribeTransaction | ListTransactions
Reply: TypeAlias = Initialized | NeedsId | TransactionDone | DescribedTransaction | ListedTransactions
