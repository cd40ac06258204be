"""The data of the replication checkers: records, each replica's log, and the truth about each partition."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from kraft_controller.core.names import INTERNAL, TopicId, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.partitions.partition_log import PartitionLog
from replica.wire.batch import walk
from replica.wire.records import read_records

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20


class Record(NamedTuple):
    epoch: int
    """The leader epoch under which it was written."""
    value: bytes
    producer: int
    sequence: int
    key: bytes = b""
    time: int = -1
    producer_epoch: int = 0
    attributes: int = 0
    """Those of its batch."""

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


Ident: TypeAlias = bytes
"""The id of a topic: a new topic of the same name has another one."""


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
"""Stands for a record that compaction removed, or that was gone before it was read."""
COMPACTED: Final = frozenset(INTERNAL)
"""Topics that are compacted: a later record of a key replaces the earlier ones."""


@define(eq=False)
class Copy:
    """One broker's log when it was read last. Like the disk, it outlives the process.

    records   by offset from 0 on, with those that retention or a client has deleted since
    start     the log start offset: earlier records do not count as missing
    let_go    the highest log start offset ever, whatever a disk has brought back since
    """

    key: Key
    records: list[Record] = field(factory=list)
    start: int = 0
    let_go: int = 0
    sequences: dict[tuple[int, int], int] = field(factory=dict)
    """The last sequence number of each producer in each of its epochs."""
    high_watermark: int = 0
    cuts: int = 0
    epoch: int = -1
    leads: bool = False

    def has_of(self, records: list[Record]) -> int:
        """Return how many of these records it has, or has deleted."""
        return common(self.records, records, self.start)


@define(eq=False)
class Truth:
    """One partition's state in the store, and the records that were committed under any leader that counts.

    factor    the number of replicas
    factors   the same by leader epoch: a leader that has not received a reassignment yet goes by its own epoch
    known     records by offset and leader epoch: there are no two of these
    unknown   records whose producer their leader did not know: other replicas may have earlier records of it, which
              retention had deleted before the leader got its replica
    unclean   epochs of leaders that were elected out of sync
    led       the newest leader epoch in which a leader has acted
    begun     the offset up to which records were deleted legally
    lost      records that were committed and are not any more, by offset: a follower may not know that yet
    fork      leaders of an earlier epoch commit for themselves alone: a leader was elected out of sync since
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
    begun: int = 0

    def counted(self) -> None:
        """Keep the factor by leader epoch: a reassignment raises the epoch before it stores the new replicas."""
        if self.state is not None:
            self.factors[self.state.leader_epoch] = self.factor


def records_of(data: bytes) -> list[tuple[int, Record]]:
    """Return the records of these batches with their offsets."""
    found = []
    for at, header in walk(data):
        for place, record in enumerate(read_records(data, at)):
            sequence = header.base_sequence + place if header.base_sequence >= 0 else -1
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
