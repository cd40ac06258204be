"""Following a leader in one leader epoch: where the own log parts from his, and what to ask him next.

The high watermark says nothing of where histories part. One's own lags behind the leader's, so cutting there would lose
what is committed; and it may lie behind the place, since two leaders can write different records at the same offset.
What tells them apart is the leader epoch of the last record: the leader says where that epoch ended with him.
"""

from __future__ import annotations

from enum import Enum, auto

from attrs import define

from kraft_controller.core.names import BrokerId, LeaderEpoch
from replica.core.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset, PartitionLog


class Step(Enum):
    FETCH = auto()
    ASK_EPOCH = auto()
    """Where did the epoch of my last record end?"""
    ASK_LATEST = auto()
    """What I asked for is not there: where does your log end,"""
    ASK_EARLIEST = auto()
    """and where does it begin?"""
    STOP = auto()
    """The leader knows of a newer epoch. The controller will tell."""


@define
class Following:
    """resume_ms   nothing is asked before
    in_sync     whether the controller counted us in when it made us follow: then no throttle holds us back
    """

    leader: BrokerId
    epoch: LeaderEpoch
    step: Step = Step.FETCH
    resume_ms: int = 0
    leader_high_watermark: int = -1
    in_sync: bool = False


def last_epoch(log: PartitionLog) -> int:
    """Of the last record. What was assigned since, to an epoch in which nothing was written, is nobody's history."""
    end = log.end_offset
    return log.epoch_for_offset(end - 1) if end > log.start_offset else NO_EPOCH


def diverges(log: PartitionLog, epoch: int, offset: int) -> EpochEndOffset | None:
    """A leader's log, asked by a replica whose last record, before `offset`, is of `epoch`. None: they agree."""
    if epoch == NO_EPOCH:
        return None
    end = end_of(log, epoch)
    if end.epoch < epoch or end.end_offset < offset:
        return end
    return None


def end_of(log: PartitionLog, epoch: int) -> EpochEndOffset:
    """Where the epoch ended, or the greatest one before it. What was deleted since ended where the log begins."""
    end = log.end_offset_for_epoch(epoch)
    return EpochEndOffset(epoch, log.start_offset) if end.end_offset == NO_OFFSET else end


def cut_at(log: PartitionLog, leaders: EpochEndOffset) -> tuple[int, bool]:
    """Where to truncate after the leader's answer, and whether that settles it; if not he is asked about what is left.

    He may name an epoch that he has and we have not. All that we have of later epochs is then not his, and of what
    remains the last epoch is an older one, of which he has said nothing yet.
    """
    end = log.end_offset
    if leaders.epoch == NO_EPOCH:
        return min(leaders.end_offset, end), True
    own = end_of(log, leaders.epoch)
    if own.epoch != leaders.epoch:
        cut, settled = min(own.end_offset, end), False
    else:
        cut, settled = min(leaders.end_offset, own.end_offset, end), True
    return max(cut, log.start_offset), settled
