"""What replication is told once, at the start."""

from __future__ import annotations

from attrs import frozen


@frozen
class Settings:
    """lag_time_max_ms        `replica.lag.time.max.ms`: who has not had everything for so long leaves the ISR
    lag_messages_max       `replica.lag.max.messages`, the rule of old: who lacks more leaves. None: no such rule
    min_insync             `min.insync.replicas` of topics that do not say another
    sync_writes            nothing counts, here or at the leader, before it is on the disk; else the page cache will do
    follower_reads         consumers may be sent to a follower in their own rack, and followers serve them
    fetch_wait_ms          `replica.fetch.wait.max.ms`
    fetch_bytes_max        `replica.fetch.response.max.bytes`, of all partitions together
    partition_bytes_max    `replica.fetch.max.bytes`
    fetch_backoff_ms       `replica.fetch.backoff.ms`: of a partition whose fetch went wrong
    fetch_diverges         leaders say in their answer to a fetch where histories part; else they are asked before
    isr_backoff_ms         before a change of an ISR, whose outcome is not known, is looked into again
    parked_max             produces and fetches that may wait at a time
    answer_bytes_max       `fetch.max.bytes` of the broker: no answer to a fetch is larger, but for its first batch
    session_partitions_max partitions in the fetch session of one follower; with more it fetches in full each time
    throttled_bytes_s      what all throttled partitions together may fetch in a second; None: as much as comes
    """

    lag_time_max_ms: int = 30_000
    lag_messages_max: int | None = None
    min_insync: int = 1
    sync_writes: bool = False
    follower_reads: bool = False
    fetch_wait_ms: int = 500
    fetch_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    fetch_backoff_ms: int = 1_000
    fetch_diverges: bool = True
    isr_backoff_ms: int = 500
    parked_max: int = 100_000
    answer_bytes_max: int = 55 * 1024 * 1024
    session_partitions_max: int = 200_000
    throttled_bytes_s: int | None = None

    @property
    def isr_check_ms(self) -> int:
        """So a follower leaves after one to one and a half times the time that it is given."""
        return max(self.lag_time_max_ms // 2, 1)
