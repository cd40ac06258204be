"""A partition as one broker holds it: its log, what of it is committed, and what this broker is to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from attrs import define, field

from kraft_controller.core.names import NOBODY, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kraft_controller.core.state import Assignment
from replica.core.errors import ErrorCode, KafkaError
from replica.core.following import Following
from replica.core.leading import Leading
from replica.core.partition_log import PartitionLog
from replica.core.settings import Settings

Role: TypeAlias = Leading | Following | None
"""None: stopped, or there is nobody to follow."""


@define(eq=False)
class Partition:
    """high_watermark   everything before it is committed, the record at it is not
    leader          as far as is known here
    leader_epoch    newest that was heard of
    durable         everything before it is on the disk, where that has to be known
    cuts            how often the log was cut: whoever began to flush before a cut has flushed another log
    start_seen      where the log began when `Replicas.logs_retired` looked last
    """

    where: TopicPartition
    log: PartitionLog
    high_watermark: int
    topic_id: TopicId | None = None
    role: Role = None
    leader: BrokerId = NOBODY
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    assignment: Assignment = field(factory=lambda: Assignment(()))
    min_insync: int = 1
    durable: int = 0
    cuts: int = 0
    start_seen: int = -1

    def __attrs_post_init__(self) -> None:
        """A watermark that was kept is a lower bound of what was committed. The log may have lost its tail since; and
        what a process before this one wrote may be in the memory of the machine alone.
        """
        log = self.log
        self.high_watermark = max(min(self.high_watermark, log.end_offset), log.start_offset)
        self.durable = log.start_offset
        self.start_seen = log.start_offset

    @property
    def stable_offset(self) -> int:
        """LSO: below it everything is committed, and of no transaction that is open or may be so again."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def enough_in_sync(self) -> bool:
        role = self.role
        assert isinstance(role, Leading)
        return len(role.isr.members) >= min(self.min_insync, max(len(self.assignment.replicas), 1))

    def check_epoch(self, asked: int) -> None:
        """Of whoever asks: a wrong one means that he, or we, have not heard yet who leads. -1: he does not say."""
        if asked == -1 or asked == self.leader_epoch:
            return
        if asked < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self.where} is in leader epoch {self.leader_epoch}, not {asked}"
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.where}: leader epoch {asked} is news; {self.leader_epoch} is known"
        )

    def leading(self) -> Leading:
        if isinstance(self.role, Leading):
            return self.role
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.where} is led by broker {self.leader}")

    def counted_end(self, settings: Settings) -> int:
        """Our own LEO, as far as it counts."""
        end = self.log.end_offset
        return min(self.durable, end) if settings.sync_writes else end

    def advance(self, now: int, live: Collection[BrokerId], settings: Settings) -> bool:
        """Of a leader: whether more is committed than before. Never less, and nothing while too few are in sync."""
        role = self.role
        if not isinstance(role, Leading) or not self.enough_in_sync:
            return False
        committed = role.committed(self.counted_end(settings), now, live, settings)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        self.log.on_high_watermark_updated(committed)
        return True

    def follow_watermark(self, leaders: int) -> bool:
        """What the leader has committed, as far as we have it. One who has not found out yet takes nothing back."""
        committed = max(min(leaders, self.log.end_offset), self.log.start_offset)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        self.log.on_high_watermark_updated(committed)
        return True

    def cut(self, offset: int) -> None:
        """There, or where the batch begins that holds the offset: a batch is not taken apart."""
        self.log.truncate_to(offset)
        self.cuts += 1
        end = self.log.end_offset
        self.high_watermark = min(self.high_watermark, end)
        self.durable = min(self.durable, end)

    def start_over(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.cuts += 1
        self.high_watermark = offset
        self.durable = offset

    def increment_start_offset(self, offset: int) -> None:
        self.log.increment_start_offset(offset)
        self.high_watermark = max(self.high_watermark, self.log.start_offset)
