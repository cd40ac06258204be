"""The settings of a replica manager."""

from __future__ import annotations

from attrs import frozen


@frozen
class ReplicaSettings:
    """The settings. The text of a setting names its configuration key, if the broker has one for it."""

    lag_time_max_ms: int = 30_000
    """`replica.lag.time.max.ms`: a follower that has not caught up for this long leaves the ISR."""
    lag_messages_max: int | None = None
    """`replica.lag.max.messages` of early Kafka versions: a follower that lacks more records than this leaves the ISR.
    None: no limit."""
    min_insync: int = 1
    """The default `min.insync.replicas` of topics."""
    sync_writes: bool = False
    """`zab.sync.writes`: acknowledge records only when they are durable; else when they are in the page cache."""
    follower_reads: bool = False
    """`replica.selector.class`: serve consumers at followers, and direct a consumer to a replica in its own rack."""
    fetch_wait_ms: int = 500
    """`replica.fetch.wait.max.ms`"""
    fetch_bytes_max: int = 10 * 1024 * 1024
    """`replica.fetch.response.max.bytes`, for all partitions together."""
    partition_bytes_max: int = 1024 * 1024
    """`replica.fetch.max.bytes`, for one partition."""
    fetch_backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`: the pause before the next fetch of a partition whose fetch failed."""
    fetch_diverges: bool = True
    """True: leaders report divergence in responses to fetches. False: a new follower sends OffsetForLeaderEpoch before
    it fetches."""
    isr_backoff_ms: int = 500
    """The pause before a partition's node is read again, if the outcome of an ISR write is still unknown."""
    isr_quiet_ms: int = 5_000
    """Notify the controller of ISR changes when the last one is this long ago."""
    isr_late_ms: int = 60_000
    """Notify the controller of ISR changes when the previous notification is this long ago, even if ISRs still
    change."""
    parked_max: int = 100_000
    """The number of delayed operations at which fetches are answered at once, and requests to delete records or to
    produce are refused, except for produce requests with acks=0."""
    answer_bytes_max: int = 55 * 1024 * 1024
    """`fetch.max.bytes` of the broker: no answer to a fetch has more bytes of records, unless its first batch does."""
    session_partitions_max: int = 200_000
    """The maximum number of partitions in a follower's fetch session. A follower with more sends full requests."""
    throttled_bytes_s: int | None = None
    """The initial limit, in bytes per second, for the fetches of all throttled partitions together; None: unlimited."""

    @property
    def isr_check_ms(self) -> int:
        """The interval between checks for lagging followers. It is half of the lag time, so a lagging follower leaves
        the ISR after 1 to 1.5 times the lag time."""
        return max(self.lag_time_max_ms // 2, 1)
