"""Requests to a transaction coordinator and its answers, without the differences between versions of the protocol.

A request has a ticket, which is answered once: at once, or when a record is on all replicas in sync.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinator_topic import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.transactions.transaction_states import TxnState

NO_PRODUCER = -1
NO_EPOCH = -1
GREATEST_EPOCH = 2**15 - 1


@frozen
class ProducerIdentity:
    """The sender of a request: a transactional id, and the producer id and epoch under which it is used."""

    id: str
    producer: int
    epoch: int


@frozen
class Init:
    """InitProducerId."""

    id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None
    """Producer id and epoch of a producer that goes on after an error; None: a new producer."""
    fresh: int | None = None
    """A producer id that was never used, in case that one is needed."""


@frozen
class Initialized:
    error: ErrorCode
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH


@frozen
class NeedsId:
    """A request for a producer id that was never used. Nothing has happened: repeat the request with one."""


@frozen
class AddPartitions:
    who: ProducerIdentity
    partitions: frozenset[TopicPartition]


@frozen
class End:
    who: ProducerIdentity
    commit: bool


@frozen
class TransactionDone:
    """The outcome for the whole request."""

    error: ErrorCode


@frozen
class DescribeTransaction:
    id: str


@frozen
class DescribedTransaction:
    """The state of a transaction. `partitions`: of a decided one, those without a marker."""

    error: ErrorCode
    state: TxnState = TxnState.DEAD
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    started_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@frozen
class ListTransactions:
    """A filter of transactions. Empty sets and -1 filter nothing."""

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
