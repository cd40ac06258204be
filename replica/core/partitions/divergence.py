"""Divergence of a follower's log from its leader's (KIP-101, KIP-279).

The high watermark is not the point of divergence. A follower's high watermark lags behind its leader's, so truncation
there would lose committed records; and it may be after the divergence, since two leaders can write different records at
one offset. The leader epoch of the last record finds the point: the leader replies where that epoch ended in its log.
"""

from __future__ import annotations

from replica.core.partitions.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset, PartitionLog


def last_epoch(log: PartitionLog) -> int:
    """Return the epoch of the last record. Later epochs without records are not part of the history."""
    end = log.end_offset
    return log.epoch_for_offset(end - 1) if end > log.start_offset else NO_EPOCH


def diverging_end(log: PartitionLog, epoch: int, offset: int) -> EpochEndOffset | None:
    """Return where a follower's history ends in its leader's log; None if the histories agree.

    The follower's last record, before `offset`, is of `epoch`.
    """
    if epoch == NO_EPOCH:
        return None
    end = end_of(log, epoch)
    if end.epoch < epoch or end.end_offset < offset:
        return end
    return None


def end_of(log: PartitionLog, epoch: int) -> EpochEndOffset:
    """Return the end of the epoch, or of the greatest epoch before it. A deleted epoch ended where the log begins."""
    end = log.end_offset_for_epoch(epoch)
    return EpochEndOffset(epoch, log.start_offset) if end.end_offset == NO_OFFSET else end


def truncation_offset(log: PartitionLog, leaders: EpochEndOffset) -> tuple[int, bool]:
    """Return where to truncate after the leader's answer, and whether the histories agree from then on.

    The leader may name an epoch that this log lacks. Then all records of later epochs diverge, and the last epoch of
    the remaining records is an older one, whose end in the leader's log is unknown: the follower sends another request.
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
