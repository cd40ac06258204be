"""What a replica manager wants from the world, and what it answers, as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import field, frozen

from kraft_controller.core.names import NOBODY, BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.errors import ErrorCode
from replica.core.partition_log import NO_EPOCH, NO_TIMESTAMP, AbortedTxn, EpochEndOffset

CONSUMER = BrokerId(-1)


# -- what is asked ---------------------------------------------------------------------------------------


@frozen
class Wanted:
    """Of one partition: what begins at `offset`.

    leader_epoch   the one in which the partition is, for all that who asks knows; -1: he does not say
    last_epoch     of his last record before `offset`; -1: he does not say
    start_offset   where his own log begins
    """

    where: TopicPartition
    offset: int
    bytes_max: int
    leader_epoch: int = -1
    last_epoch: int = NO_EPOCH
    start_offset: int = -1


@frozen
class InSession:
    """The place of a follower's request in its fetch session (KIP-227).

    epoch       0: the request is complete and begins a session. Else the request names only what changed
    forgotten   partitions that leave the session
    """

    id: int = 0
    epoch: int = 0
    forgotten: tuple[TopicPartition, ...] = ()


@frozen
class Fetch:
    """replica        who asks; `CONSUMER` if it is none
    broker_epoch   of which life of his; -1: he does not say
    committed      read_committed
    any_replica    who asks knows that a follower may answer
    session        only of a follower; None: the request is complete and belongs to no session
    """

    parts: tuple[Wanted, ...]
    replica: BrokerId = CONSUMER
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    wait_ms: int = 0
    bytes_min: int = 1
    bytes_max: int = 0x7FFFFFFF
    committed: bool = False
    rack: str = ""
    any_replica: bool = False
    session: InSession | None = None


# -- what is answered ------------------------------------------------------------------------------------


@frozen
class Fetched:
    """aborted     transactions that reach into these records, and of which nobody shall see any; told to who reads only
                what is committed
    preferred   the replica to ask instead; -1: none
    leader      who leads, and in which epoch, where the error is that who asked does not know
    """

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    stable_offset: int = -1
    start_offset: int = -1
    records: bytes = b""
    diverging: EpochEndOffset | None = None
    preferred: BrokerId = NOBODY
    leader: tuple[BrokerId, LeaderEpoch] | None = None
    aborted: tuple[AbortedTxn, ...] = ()


class SessionFetched(list[Fetched]):
    """The answer to a fetch in a session: only partitions with news.

    id      of the session; 0: the leader keeps none
    error   refuses the whole request
    """

    def __init__(self, id: int, parts: Iterable[Fetched] = (), error: ErrorCode = ErrorCode.NONE) -> None:  # noqa: A002
        super().__init__(parts)
        self.id = id
        self.error = error


@frozen
class Produced:
    """record_errors   index in the batch, and reason, of the records for which the batch was refused"""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
    base_offset: int = -1
    append_time: int = NO_TIMESTAMP
    start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()


@frozen
class Deleted:
    """low_watermark   nothing before it is there any more, with nobody who is alive"""

    where: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1


Results: TypeAlias = list[Produced] | list[Deleted] | list[Fetched]


@frozen
class Reply:
    """To what was parked under this token."""

    token: int
    results: Results


# -- what is wanted ----------------------------------------------------------------------------------------


@frozen
class WriteIsr:
    """To the partition's state node, if it is still at `state.version`. The answer goes to `Replicas.isr_written` or
    another of these."""

    where: TopicPartition
    state: PartitionState
    joins: tuple[BrokerId, ...] = ()
    """Who is new in it, and has to be registered when it is written."""
    lives: tuple[BrokerEpoch, ...] = ()
    """Of each of these, as which life; -1: whichever."""


@frozen
class ReadIsr:
    """As it is in the store now, after all that was written before."""

    where: TopicPartition
    epoch: LeaderEpoch


@frozen
class Flush:
    where: TopicPartition
    cuts: int


@frozen
class RoleTaken:
    """leads   None: this broker has nothing to do with it any more"""

    where: TopicPartition
    leads: bool | None
    epoch: LeaderEpoch


@frozen
class Note:
    """Something an operator may want to know. `event` is one of few words, `fields` say what about."""

    event: str
    fields: tuple[tuple[str, object], ...]


@frozen
class Ready:
    """What the world should do now. `leaders`: those of whom something new is to be asked."""

    replies: tuple[Reply, ...] = ()
    writes: tuple[WriteIsr, ...] = ()
    reads: tuple[ReadIsr, ...] = ()
    flushes: tuple[Flush, ...] = ()
    leaders: tuple[BrokerId, ...] = ()
    roles: tuple[RoleTaken, ...] = ()
    notes: tuple[Note, ...] = ()


@frozen
class EpochAsk:
    """Of a leader: where did this epoch end? (`OffsetForLeaderEpoch`)"""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    epoch: int


@frozen
class OffsetAsk:
    """Of a leader: where does the log end, or begin? (`ListOffsets`)"""

    where: TopicPartition
    leader_epoch: LeaderEpoch
    latest: bool


@frozen
class Request:
    """One of the three, to one leader. The answers, in the same order, go to `Replicas.answered`."""

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
