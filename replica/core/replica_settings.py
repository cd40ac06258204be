"""The settings of a replica manager."""

from __future__ import annotations

from attrs import frozen


@frozen
class ReplicaSettings:
    """Named as in a broker's configuration, where that has a name."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: a follower that has not caught up for this long leaves the ISR."""
    lag_messages_max: int | None = None
    """`replica.lag.max.messages`, the former rule: a follower that lacks more leaves. None: no such rule."""
    min_insync: int = 1
    """`min.insync.replicas` of topics without their own."""
    sync_writes: bool = False
    """Records are acknowledged when they are on disk; else when they are in the page cache."""
    follower_reads: bool = False
    """Followers serve consumers, and leaders send consumers to a follower in their own rack."""
    fetch_wait_ms: int = 500
    """`replica.fetch.wait.max.ms`"""
    fetch_bytes_max: int = 10 * 1024 * 1024
    """`replica.fetch.response.max.bytes`, of all partitions together."""
    partition_bytes_max: int = 1024 * 1024
    """`replica.fetch.max.bytes`"""
    fetch_backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`: the pause before the next fetch of a partition whose fetch failed."""
    fetch_diverges: bool = True
    """Leaders report divergence in responses to fetches; else followers send OffsetForLeaderEpoch before they fetch."""
    isr_backoff_ms: int = 500
    """The pause before the node of an ISR whose change has an unknown outcome is read again."""
    isr_quiet_ms: int = 5_000
    """The controller is notified of changed ISRs when none has changed for this long,"""
    isr_late_ms: int = 60_000
    """or when it was not notified for this long."""
    parked_max: int = 100_000
    """Delayed operations at a time."""
    answer_bytes_max: int = 55 * 1024 * 1024
    """`fetch.max.bytes` of the broker: no answer to a fetch is larger, except for its first batch."""
    session_partitions_max: int = 200_000
    """Partitions in the fetch session of one follower. With more it fetches in full each time."""
    throttled_bytes_s: int | None = None
    """The rate that all throttled partitions together may fetch; None: unlimited."""

    @property
    def isr_check_ms(self) -> int:
        """Half of the lag time, so a follower leaves after one to one and a half times that."""
        return max(self.lag_time_max_ms // 2, 1)
