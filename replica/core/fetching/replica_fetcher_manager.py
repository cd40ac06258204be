"""All fetchers of a broker, as Kafka's `ReplicaFetcherManager`: one for each leader that it follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from replica.core.fetching.replica_fetcher import Answers, ReplicaFetcher
from replica.core.outbox import Outbox
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.partition import Partition
from replica.core.replica_messages import LeaderRequest
from replica.core.replica_settings import ReplicaSettings
from replica.core.replication_quota import ReplicationQuotaManager


class ReplicaFetcherManager:
    """Assigns each partition that this broker follows to the fetcher for its leader."""

    def __init__(
        self,
        me: BrokerId,
        settings: ReplicaSettings,
        outbox: Outbox,
        fail: Callable[[Partition, str], None],
        fail_if_changed: Callable[[TopicPartition, int, Exception], None],
        end_turn: Callable[[int], None],
    ) -> None:
        self.quota = ReplicationQuotaManager(settings.throttled_bytes_s)
        """Limits the bytes fetched of throttled partitions (`follower.replication.throttled.rate`). A partition is
        exempt if the replica on this broker was in the ISR when it became a follower."""
        self._outbox = outbox
        self._end_turn = end_turn
        """Called after each answer of a leader, to answer the delayed operations that are complete then."""
        self._made_of = me, settings, self.quota, outbox, fail, fail_if_changed
        """The arguments that all fetchers share."""
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        """Fetchers by leader. Each has at least one partition."""

    @property
    def leaders(self) -> tuple[BrokerId, ...]:
        """The leaders that this broker follows in at least one partition."""
        return tuple(self._fetchers)

    def throttle(self, partitions: Iterable[TopicPartition], bytes_s: int | None) -> None:
        self.quota.configure(partitions, bytes_s)
        # a fetcher may be waiting because of the former rate
        self._outbox.leaders.update(dict.fromkeys(self._fetchers))

    def add(self, partition: Partition) -> None:
        """Fetch a partition whose replica on this broker has just become a follower."""
        role = partition.role
        assert isinstance(role, FollowerRole)
        fetcher = self._fetchers.get(role.leader)
        if fetcher is None:
            fetcher = self._fetchers[role.leader] = ReplicaFetcher(role.leader, *self._made_of)
        fetcher.add(partition)
        self._outbox.leaders[role.leader] = None

    def remove(self, partition: Partition) -> None:
        """End a follower's role and stop fetching the partition. Do nothing if the replica is not a follower."""
        if isinstance(partition.role, FollowerRole):
            leader = partition.role.leader
            fetcher = self._fetchers[leader]
            fetcher.remove(partition.where)
            if not fetcher:
                del self._fetchers[leader]
            self._outbox.leaders[leader] = None
            partition.end_following()

    def start_moved(self, partition: Partition) -> None:
        """Report the new log start to the leader after retention moved it."""
        if isinstance(partition.role, FollowerRole):
            self._fetchers[partition.role.leader].disturb(partition.where)

    # -- requests ------------------------------------------------------------------------------------------

    def next_request(self, leader: BrokerId, broker_epoch: BrokerEpoch, now: int) -> LeaderRequest | None:
        fetcher = self._fetchers.get(leader)
        return None if fetcher is None else fetcher.next_request(broker_epoch, now)

    def resume_at(self, leader: BrokerId, now: int) -> int | None:
        fetcher = self._fetchers.get(leader)
        return None if fetcher is None else fetcher.resume_at(now)

    def interrupts(self, leader: BrokerId, now: int) -> bool:
        fetcher = self._fetchers.get(leader)
        return fetcher is not None and fetcher.interrupts(now)

    def answered(self, request: LeaderRequest, answers: Answers, now: int) -> None:
        fetcher = self._fetchers.get(request.leader)
        if fetcher is not None:
            fetcher.answered(request, answers, now)
        self._end_turn(now)

    def failed(self, request: LeaderRequest, now: int) -> None:
        fetcher = self._fetchers.get(request.leader)
        if fetcher is not None:
            fetcher.failed(request, now)
