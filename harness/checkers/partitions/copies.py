"""The data of the replication checkers: records, each replica's log, and the true state of each partition."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from kraft_controller.core.names import INTERNAL, TopicId, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.partitions.partition import Partition
from replica.core.partitions.partition_log import PartitionLog
from replica.wire.batch import walk
from replica.wire.records import read_records

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
SEQUENCES: Final = 1 << 31


class Record(NamedTuple):
    epoch: int
    """The leader epoch in which the record was written."""
    value: bytes
    producer: int
    sequence: int
    key: bytes = b""
    time: int = -1
    producer_epoch: int = 0
    attributes: int = 0
    """The attributes of the record's batch, TRANSACTIONAL and CONTROL only."""

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


Ident: TypeAlias = bytes
"""The id of a topic. A new topic of the same name has another id."""


@cache
def ident_of(topic_id: TopicId) -> Ident:
    """Return the sixteen bytes that `partition.metadata` wants, of an id that the harness made."""
    return int(topic_id[1:]).to_bytes(16, "big")


@frozen
class Key:
    where: TopicPartition
    ident: Ident

    def __str__(self) -> str:
        return str(self.where)


GONE: Final = Record(-1, b"", -1, -1)
"""A placeholder for a record that compaction removed, or that was deleted before the checkers read it."""
COMPACTED: Final = frozenset(INTERNAL)
"""Topics that are compacted: a later record of a key replaces the earlier ones."""


@define(eq=False)
class Copy:
    """One broker's log as the checkers read it last. Like the disk, it survives the process.

    records         the records by offset from 0 on, including those that were deleted since
    start           the log start offset; earlier records do not count as missing
    highest_start   the highest log start offset ever, even if a disk has brought records back since
    cuts            the number of truncations that the partition counted
    epoch           the leader epoch of the partition
    partition       the broker's replica as it was read last; another object after a restart
    """

    key: Key
    records: list[Record] = field(factory=list)
    start: int = 0
    highest_start: int = 0
    sequences: dict[tuple[int, int], int] = field(factory=dict)
    """The last sequence number of each producer in each of its epochs."""
    high_watermark: int = 0
    cuts: int = 0
    epoch: int = -1
    leads: bool = False
    partition: Partition | None = None

    def has_of(self, records: list[Record]) -> int:
        """Return the number of these records that the log has, or has deleted."""
        return common(self.records, records, self.start)


@define(eq=False)
class Truth:
    """One partition's state in the store, and the records that were committed under any leader that counts.

    factor    the number of replicas
    factors   the number of replicas by leader epoch, because a leader that has not received a reassignment yet goes by
              its own epoch
    known     the only record of each offset and leader epoch
    unknown   the offset and epoch of records whose producer was new to their leader. Other replicas may have earlier
              records of the producer, which retention had deleted before the leader got its replica
    unclean   the epochs of leaders that were elected outside the ISR
    led       the newest leader epoch in which a leader has acted
    lost      records that were committed and lost legally, by offset; a follower may still have them
    fork      the epoch of the last leader that may have lost records legally. Leaders of earlier epochs commit for
              themselves only, and are not judged

    deleted_upto is the offset up to which records were deleted legally.
    """

    key: Key
    state: PartitionState | None = None
    factor: int = 0
    factors: dict[int, int] = field(factory=dict)
    committed: list[Record] = field(factory=list)
    lost: dict[int, Record] = field(factory=dict)
    known: dict[tuple[int, int], Record] = field(factory=dict)
    unknown: set[tuple[int, int]] = field(factory=set)
    unclean: list[int] = field(factory=list)
    led: int = -1
    fork: int = -1
    deleted_upto: int = 0

    def keep_factor(self) -> None:
        """Store the factor for the present leader epoch. A reassignment raises the epoch before it stores the new
        replicas."""
        if self.state is not None:
            self.factors[self.state.leader_epoch] = self.factor


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence of the record that comes `count` records later: after 2**31 - 1 comes 0."""
    return (sequence + count) % SEQUENCES


def records_of(data: bytes) -> list[tuple[int, Record]]:
    """Return the records of these batches with their offsets."""
    found = []
    for at, header in walk(data):
        for place, record in enumerate(read_records(data, at)):
            sequence = sequence_after(header.base_sequence, place) if header.base_sequence >= 0 else -1
            made = Record(
                header.leader_epoch,
                record.value or b"",
                header.producer_id,
                sequence,
                record.key or b"",
                record.timestamp,
                max(header.producer_epoch, 0),
                header.attributes & (TRANSACTIONAL | CONTROL),
            )
            found.append((record.offset, made))
    return found


def read_all(log: PartitionLog, since: int = 0) -> list[Record]:
    """Return one record for each offset from `since` on, or from the log start."""
    since = max(since, log.start_offset)
    data = log.read(since, 1 << 30, log.end_offset).records if log.end_offset > since else b""
    found = [GONE] * (log.end_offset - since)
    for offset, record in records_of(data):
        if offset >= since:
            found[offset - since] = record
    return found


def common(one: list[Record], other: list[Record], since: int = 0) -> int:
    """Return the end of the equal records from `since` on."""
    least = min(len(one), len(other))
    if one[since:least] == other[since:least]:
        return least
    for place in range(since, least):
        if one[place] != other[place] and GONE not in (one[place], other[place]):
            return place
    return least
