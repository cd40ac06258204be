"""Divergence of a follower's log from its leader's (KIP-101, KIP-279).

The high watermark is not the point of divergence. A follower's high watermark lags behind its leader's, so truncation
to it could lose committed records. It may also be beyond the divergence, for example after an unclean election. So a
follower sends the leader epoch of its last record. The leader compares that with its own log, and replies with the
offset at which the epoch, or the greatest earlier one, ended there.
"""

from __future__ import annotations

from replica.core.partitions.partition_log import NO_EPOCH, NO_OFFSET, EpochEndOffset, PartitionLog


def last_epoch(log: PartitionLog) -> int:
    """Return the epoch of the last record; NO_EPOCH if the log is empty. Later epochs without records are ignored."""
    end = log.end_offset
    return log.epoch_for_offset(end - 1) if end > log.start_offset else NO_EPOCH


def diverging_end(log: PartitionLog, epoch: int, offset: int) -> EpochEndOffset | None:
    """Return `end_of(log, epoch)` if the follower's log diverges from this leader's. Return None if it does not, or if
    `epoch` is NO_EPOCH.

    `epoch` is the leader epoch of the follower's last record, and `offset` the end of the follower's log.
    """
    if epoch == NO_EPOCH:
        return None
    end = end_of(log, epoch)
    if end.epoch < epoch or end.end_offset < offset:
        return end
    return None


def end_of(log: PartitionLog, epoch: int) -> EpochEndOffset:
    """Return `log.end_offset_for_epoch(epoch)`. If the log has no epochs or only earlier ones, return the epoch with
    the log start offset."""
    end = log.end_offset_for_epoch(epoch)
    return EpochEndOffset(epoch, log.start_offset) if end.end_offset == NO_OFFSET else end


def truncation_offset(log: PartitionLog, leaders: EpochEndOffset) -> tuple[int, bool]:
    """Return the offset to truncate to after the leader's answer, and whether the logs agree after that.

    The leader may name an epoch that this log lacks. Then all records of later epochs diverge, and the remaining
    records end in an older epoch. The leader has not answered where that epoch ends, so the follower asks again.
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
