"""Requests to a replica manager, its answers and its effects, as values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from attrs import field

from kraft_controller.core.names import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.errors import ErrorCode
from replica.core.partitions.partition_log import NO_EPOCH, NO_TIMESTAMP, AbortedTxn, EpochEndOffset, PartitionLog
from zab.core.frozen import frozen

CONSUMER = BrokerId(-1)


# -- fetches ---------------------------------------------------------------------------------------


@frozen
class FetchPartition:
    """One partition of a fetch: the records from `offset` on."""

    where: TopicPartition
    offset: int
    bytes_max: int
    leader_epoch: int = -1
    """The current leader epoch as the client knows it; -1: not given."""
    last_epoch: int = NO_EPOCH
    """The epoch of the follower's last record before `offset`; -1: not given."""
    start_offset: int = -1
    """The start offset of the follower's log; -1: not given."""


@frozen
class FetchSessionPlace:
    """The place of a follower's request in its fetch session (KIP-227)."""

    id: int = 0
    epoch: int = 0
    """The session epoch; 0 in a full request that opens a session. Other requests name only changes."""
    forgotten: tuple[TopicPartition, ...] = ()
    """Partitions to remove from the session."""


@frozen
class Fetch:
    """A fetch by a follower or a consumer."""

    parts: tuple[FetchPartition, ...]
    replica: BrokerId = CONSUMER
    """The follower that fetches; `CONSUMER` for a consumer."""
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    """The broker epoch of the follower's process; -1: not given."""
    wait_ms: int = 0
    bytes_min: int = 1
    bytes_max: int = 0x7FFFFFFF
    committed: bool = False
    """True for the isolation level read_committed."""
    rack: str = ""
    any_replica: bool = False
    """True if the client accepts answers of followers (KIP-392)."""
    session: FetchSessionPlace | None = None
    """The place in the fetch session; None for a full request without a session."""


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
    """The end of the follower's last epoch, or of the greatest earlier one, in the leader's log: the follower must
    truncate its log. None if the logs agree."""
    preferred: BrokerId = NO_BROKER
    """The replica to fetch from instead, or `NO_BROKER`."""
    leader: tuple[BrokerId, LeaderEpoch] | None = None
    """The current leader and leader epoch, if the client's metadata is stale."""
    aborted: tuple[AbortedTxn, ...] = ()
    """Aborted transactions that overlap the offsets of the answer, for read_committed consumers."""


class SessionFetched(list[Fetched]):
    """The answer to a fetch in a session: only partitions with records, changed offsets, a divergence or an error."""

    def __init__(self, id: int, parts: Iterable[Fetched] = (), error: ErrorCode = ErrorCode.NONE) -> None:  # noqa: A002
        super().__init__(parts)
        self.id = id
        """The id of the session; 0 if the leader keeps none."""
        self.error = error
        """An error that refuses the whole request."""


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
    """The records that caused the refusal of the batch: their index in the batch, and the reason."""


@frozen
class Deleted:
    """The answer for one partition of a request to delete records."""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1
    """The smallest log start of all live replicas; -1: unknown."""


Results: TypeAlias = list[Produced] | list[Deleted] | list[Fetched]


@frozen
class Reply:
    """The answer to the delayed operation of this token."""

    token: int
    results: Results


# -- effects ----------------------------------------------------------------------------------------


@frozen
class WriteIsr:
    """A request to write an ISR to the partition's node, if the node is still at `state.version`.

    The outcome is reported to the `AlterPartitionManager`.
    """

    where: TopicPartition
    state: PartitionState
    joins: tuple[BrokerId, ...] = ()
    """New members, which must be registered at the time of the write."""
    broker_epochs: tuple[BrokerEpoch, ...] = ()
    """The broker epoch of each new member; -1 matches any."""


@frozen
class ReadIsr:
    """A request to read the partition's node after all earlier writes."""

    where: TopicPartition
    epoch: LeaderEpoch


@frozen
class LogFlush:
    """A flush to run. Call `ReplicaManager.flushed` with `cuts` when it ends, or `disk_failed` if it fails."""

    where: TopicPartition
    log: PartitionLog
    cuts: int


@frozen
class RoleTaken:
    """A new role of this broker in a partition. `leads` is None if the replica was stopped or went offline."""

    where: TopicPartition
    leads: bool | None
    epoch: LeaderEpoch


@frozen
class Note:
    """A message for the broker's log. `event` is its fixed name, such as `isr_changed`.

    raised   the exception to log, if there is one
    key      distinguishes notes that are rate-limited: each key has a limit of its own
    """

    event: str
    fields: tuple[tuple[str, object], ...]
    raised: Exception | None = None
    key: Hashable = None


@frozen
class Ready:
    """Work for the runtime.

    flushes   True if the flush queue is not empty: see `ReplicaManager.next_flush`
    leaders   the leaders whose fetchers may have a new request
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
    """OffsetForLeaderEpoch: ask a leader where this epoch ended in its log."""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    epoch: int


@frozen
class OffsetAsk:
    """ListOffsets: ask a leader for its log end or log start."""

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
