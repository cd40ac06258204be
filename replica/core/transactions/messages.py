"""What producers and operators ask of a coordinator of transactions and what it answers, without the differences
between versions of the protocol.

A request comes with a ticket, and its answer goes out under it: at once, or when a record is safe. Every ticket is
answered once.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.coordinating import Ticket as Ticket
from replica.core.errors import ErrorCode
from replica.core.transactions.states import TxnState

NO_PRODUCER = -1
NO_EPOCH = -1
GREATEST_EPOCH = 2**15 - 1


@frozen
class Identity:
    """Who asks: the name that outlives him, and which of those who bear it he is."""

    id: str
    producer: int
    epoch: int


@frozen
class Init:
    """expected   id and epoch of one that goes on after an error; None: a new one
    fresh      an id that nobody ever had, for the case that one is needed
    """

    id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None
    fresh: int | None = None


@frozen
class Initialized:
    error: ErrorCode
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH


@frozen
class NeedsId:
    """Nothing has happened. He is to ask again with an id that nobody ever had."""


@frozen
class AddPartitions:
    who: Identity
    partitions: frozenset[TopicPartition]


@frozen
class End:
    who: Identity
    commit: bool


@frozen
class Done:
    """All of it, or nothing of it."""

    error: ErrorCode


@frozen
class Describe:
    id: str


@frozen
class Described:
    """partitions   in the transaction; when it is decided, those that do not know it yet"""

    error: ErrorCode
    state: TxnState = TxnState.DEAD
    producer: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    started_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@frozen
class ListTransactions:
    """states, producers   none named: all
    longer_than_ms      -1: however long they have been open
    """

    states: frozenset[TxnState] = frozenset()
    producers: frozenset[int] = frozenset()
    longer_than_ms: int = -1


@frozen
class ListedTransaction:
    id: str
    producer: int
    state: TxnState


@frozen
class Listed:
    error: ErrorCode
    transactions: tuple[ListedTransaction, ...] = ()


Ask: TypeAlias = Init | AddPartitions | End | Describe | ListTransactions
Reply: TypeAlias = Initialized | NeedsId | Done | Described | Listed
