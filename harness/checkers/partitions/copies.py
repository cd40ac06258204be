"""What an onlooker knows of partitions: what each broker's log holds, and what of it was ever committed."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from kraft_controller.core.names import INTERNAL, TopicId, TopicPartition
from kraft_controller.core.state import PartitionState
from replica.core.partitions.partition_log import PartitionLog
from replica.wire.batch import walk
from replica.wire.records import read_records


class Record(NamedTuple):
    epoch: int
    """Under which leader it was written."""
    value: bytes
    producer: int
    sequence: int
    key: bytes = b""
    time: int = -1


Ident: TypeAlias = bytes
"""Of a topic: one that is made again under the same name has another."""


def ident_of(topic_id: TopicId) -> Ident:
    """Sixteen bytes, as `partition.metadata` wants them, of an id that the harness made."""
    return int(topic_id[1:]).to_bytes(16, "big")


@frozen
class Key:
    where: TopicPartition
    ident: Ident

    def __str__(self) -> str:
        return str(self.where)


GONE: Final = Record(-1, b"", -1, -1)
"""Stands where nobody has looked before it went, and where a cleaner was."""
COMPACTED: Final = frozenset(INTERNAL)
"""Topics of which a cleaner takes what a later record of its key replaces."""


@define(eq=False)
class Copy:
    """One broker's log as it was when somebody looked last. The disk outlives the process, and so does this.

    records   by offset from 0 on, also those that went since, for their age or because somebody wished it
    start     where the log begins: what is before it was let go of, and does not count as lacking
    let_go    the furthest that it ever began, whatever a disk has brought back since
    """

    key: Key
    records: list[Record] = field(factory=list)
    start: int = 0
    let_go: int = 0
    sequences: dict[int, int] = field(factory=dict)
    """The last one of each producer."""
    high_watermark: int = 0
    cuts: int = 0
    epoch: int = -1
    leads: bool = False

    def seen(self) -> tuple[int, int, int, int, int, bool]:
        return len(self.records), self.start, self.cuts, self.high_watermark, self.epoch, self.leads

    def has_of(self, records: list[Record]) -> int:
        """So many of these it has, or has let go of."""
        return common(self.records, records, self.start)


@define(eq=False)
class Truth:
    """Of one partition: what the store says, and what has been committed under any leader that counts.

    factor    so many brokers are to hold it
    factors   the same by leader epoch: a leader that does not know yet of a move goes by what was said in its own epoch
    known     by offset and leader epoch: there are no two of these
    unknown   those of them whose producer the leader that wrote them did not know: others may know of earlier ones,
              which had gone for their age or size before it came to hold the partition
    unclean   leader epochs of leaders that were not in sync when they were elected
    led       the newest leader epoch under which somebody has acted
    begun     up to there records went anywhere for a good reason
    lost      what was committed, and is not any more, by offset: a follower may not have heard of that yet
    fork      leaders of an earlier epoch commit for themselves alone: somebody not in sync was elected since
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
        """A move counts up the leader epoch before it says who is to hold the partition."""
        if self.state is not None:
            self.factors[self.state.leader_epoch] = self.factor


def records_of(data: bytes) -> list[tuple[int, Record]]:
    """What these batches hold, by offset."""
    found = []
    for at, header in walk(data):
        for place, record in enumerate(read_records(data, at)):
            sequence = header.base_sequence + place if header.producer_id >= 0 else -1
            made = Record(
                header.leader_epoch,
                record.value or b"",
                header.producer_id,
                sequence,
                record.key or b"",
                record.timestamp,
            )
            found.append((record.offset, made))
    return found


def read_all(log: PartitionLog, since: int = 0) -> list[Record]:
    """From there on, or from where it begins, one for each offset."""
    since = max(since, log.start_offset)
    data = log.read(since, 1 << 30, log.end_offset).records if log.end_offset > since else b""
    found = [GONE] * (log.end_offset - since)
    for offset, record in records_of(data):
        if offset >= since:
            found[offset - since] = record
    return found


def common(one: list[Record], other: list[Record], since: int = 0) -> int:
    """Up to there the records are the same, from that place on."""
    least = min(len(one), len(other))
    if one[since:least] == other[since:least]:
        return least
    for place in range(since, least):
        if one[place] != other[place] and GONE not in (one[place], other[place]):
            return place
    return least
