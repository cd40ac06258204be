"""Requests to a replica manager, its answers and its effects, as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import NOBODY, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.errors import ErrorCode
from replica.core.partitions.partition_log import NO_EPOCH, NO_TIMESTAMP, AbortedTxn, EpochEndOffset, PartitionLog

CONSUMER = BrokerId(-1)


# -- fetches ---------------------------------------------------------------------------------------


@frozen
class FetchPartition:
    """One partition of a fetch: the records from `offset` on."""

    where: TopicPartition
    offset: int
    bytes_max: int
    leader_epoch: int = -1
    """The leader epoch that the client knows; -1: not named."""
    last_epoch: int = NO_EPOCH
    """The epoch of the follower's last record before `offset`; -1: not named."""
    start_offset: int = -1
    """The start of the follower's own log."""


@frozen
class FetchSessionPlace:
    """The place of a follower's request in its fetch session (KIP-227)."""

    id: int = 0
    epoch: int = 0
    """0: the request is complete and begins a session. Else the request names only what changed."""
    forgotten: tuple[TopicPartition, ...] = ()
    """Partitions that leave the session."""


@frozen
class Fetch:
    """A fetch of a follower or a consumer."""

    parts: tuple[FetchPartition, ...]
    replica: BrokerId = CONSUMER
    """The follower that fetches; `CONSUMER` for a consumer."""
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The broker epoch of the follower's process; -1: not named."""
    wait_ms: int = 0
    bytes_min: int = 1
    bytes_max: int = 0x7FFFFFFF
    committed: bool = False
    """Whether the isolation level is read_committed."""
    rack: str = ""
    any_replica: bool = False
    """Whether the client knows that a follower may answer (KIP-392)."""
    session: FetchSessionPlace | None = None
    """None: the request is complete and belongs to no session."""


# -- answers ------------------------------------------------------------------------------------


@frozen
class Fetched:
    """The answer for one partition of a fetch."""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    stable_offset: int = -1
    start_offset: int = -1
    records: bytes = b""
    diverging: EpochEndOffset | None = None
    """Where the follower's history ends in the leader's log: it has to truncate."""
    preferred: BrokerId = NOBODY
    """The replica to fetch from instead; -1: none."""
    leader: tuple[BrokerId, LeaderEpoch] | None = None
    """Leader and leader epoch, for a client with stale metadata."""
    aborted: tuple[AbortedTxn, ...] = ()
    """Aborted transactions with records in the answer, for read_committed."""


class SessionFetched(list[Fetched]):
    """The answer to a fetch in a session: only partitions with news."""

    def __init__(self, id: int, parts: Iterable[Fetched] = (), error: ErrorCode = ErrorCode.NONE) -> None:  # noqa: A002
        super().__init__(parts)
        self.id = id
        """0: the leader keeps no session."""
        self.error = error
        """Refuses the whole request."""


@frozen
class Produced:
    """The answer for one partition of a produce request."""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    base_offset: int = -1
    append_time: int = NO_TIMESTAMP
    start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    """Index in the batch and reason of the records for which the batch was refused."""


@frozen
class Deleted:
    """The answer for one partition of a request to delete records."""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1
    """No live replica has records before it."""


Results: TypeAlias = list[Produced] | list[Deleted] | list[Fetched]


@frozen
class Reply:
    """The answer to the delayed operation of this token."""

    token: int
    results: Results


# -- effects ----------------------------------------------------------------------------------------


@frozen
class WriteIsr:
    """Write an ISR to the partition's node if it is still at `state.version`. Report the outcome to the
    `AlterPartitionManager`."""

    where: TopicPartition
    state: PartitionState
    joins: tuple[BrokerId, ...] = ()
    """New members, which have to be registered when it is written."""
    broker_epochs: tuple[BrokerEpoch, ...] = ()
    """The broker epoch of each of them; -1: any."""


@frozen
class ReadIsr:
    """Read the partition's node, after all earlier writes."""

    where: TopicPartition
    epoch: LeaderEpoch


@frozen
class LogFlush:
    """A flush to run. Its end is reported to `ReplicaManager.flushed`, with `cuts`."""

    where: TopicPartition
    log: PartitionLog
    cuts: int


@frozen
class RoleTaken:
    """A new role of this broker. `leads` None: it has no role in the partition any more."""

    where: TopicPartition
    leads: bool | None
    epoch: LeaderEpoch


@frozen
class Note:
    """A message for operators. `event` is one of few fixed words."""

    event: str
    fields: tuple[tuple[str, object], ...]


@frozen
class Ready:
    """Work for the runtime.

    flushes   the flush queue is not empty: see `ReplicaManager.next_flush`
    leaders   their fetchers may have a new request
    """

    replies: tuple[Reply, ...] = ()
    writes: tuple[WriteIsr, ...] = ()
    reads: tuple[ReadIsr, ...] = ()
    flushes: bool = False
    leaders: tuple[BrokerId, ...] = ()
    roles: tuple[RoleTaken, ...] = ()
    notes: tuple[Note, ...] = ()


@frozen
class EpochAsk:
    """A question to a leader: where did this epoch end? (OffsetForLeaderEpoch)"""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    epoch: int


@frozen
class OffsetAsk:
    """A question to a leader: where does the log end, or begin? (ListOffsets)"""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    latest: bool


@frozen
class LeaderRequest:
    """A request to one leader, of one of three kinds. Its answers go to `ReplicaFetcherManager.answered`."""

    leader: BrokerId
    fetch: Fetch | None = None
    epochs: tuple[EpochAsk, ...] = ()
    offsets: tuple[OffsetAsk, ...] = ()


@frozen
class EpochAnswer:
    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    end: EpochEndOffset = field(default=EpochEndOffset(-1, -1))


@frozen
class OffsetAnswer:
    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
