"""What a coordinator remembers in the topic of transactions, and what it wants from the world, as data."""

from __future__ import annotations

from typing import NewType, TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.transactions.messages import Reply, Ticket
from replica.core.transactions.states import TxnState

AppendId = NewType("AppendId", int)
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
class Answer:
    ticket: Ticket
    reply: Reply


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
class Load:
    """Read this partition of the topic from its start, `replay` what is found, and say `loaded`. Not before everything
    that was in the log when the leader was elected is known to be on every replica in sync.
    """

    partition: int
    epoch: int
    number: int
    """No two loads have the same: whoever still reads for one that is over is not heard."""


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
class Ready:
    """Nothing in here needs to wait for anything else in here: what has to wait for a record comes later."""

    answers: tuple[Answer, ...] = field(default=())
    appends: tuple[Append, ...] = field(default=())
    loads: tuple[Load, ...] = field(default=())
    markers: tuple[Marker, ...] = field(default=())
    notes: tuple[Note, ...] = field(default=())
