"""ISR changes outside of the request path: the check for lagging followers, and the outcomes of ISR writes.

A leader writes one change of a partition's ISR at a time (`WriteIsr`). It reads the node (`ReadIsr`) if the write met
another version, or if its outcome is unknown. The runtime reports each outcome here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto

from kraft_controller.core.names import LeaderEpoch, TopicPartition, Version
from kraft_controller.core.state import PartitionState
from replica.core.fetching.follower_fetch_sessions import FollowerFetchSessions
from replica.core.isr_change_propagation import IsrChangePropagation
from replica.core.partitions.isr import Doubt
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.core.replica_messages import WriteIsr
from replica.core.replica_settings import ReplicaSettings


class IsrWriteError(Enum):
    """The reason why an ISR write failed, or may have failed."""

    REFUSED = auto()
    """The node has another version."""
    LOST = auto()
    """The reply was lost: the write may be in force."""
    UNWANTED = auto()
    """A broker that was to join the ISR is not registered any more, or has registered again since it caught up."""
    GONE = auto()
    """The node does not exist."""


class AlterPartitionManager:
    """Maintains the ISRs of the partitions that this broker leads."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        sessions: FollowerFetchSessions,
        settings: ReplicaSettings,
        end_turn: Callable[[int], None],
    ) -> None:
        self.propagation = IsrChangePropagation(settings.isr_quiet_ms, settings.isr_late_ms)
        self.lagging: dict[TopicPartition, None] = {}
        """Partitions with a follower that may lack records: only these can lose an ISR member."""
        self._partitions = partitions
        self._sessions = sessions
        self._settings = settings
        self._end_turn = end_turn
        """Completes delayed operations after a change."""
        self._check_at: int | None = None
        """The time of the next check for lagging followers. Set while `lagging` is not empty."""
        self._reads_due: list[tuple[int, TopicPartition]] = []
        """A heap of partitions whose node must be read again, each with the time of the read."""

    @property
    def deadline(self) -> int | None:
        """The time of the next `tick`; None if none is needed."""
        read_at = self._reads_due[0][0] if self._reads_due else None
        if self._check_at is None or read_at is None:
            return read_at if self._check_at is None else self._check_at
        return min(self._check_at, read_at)

    def tick(self, now: int) -> None:
        while self._reads_due and self._reads_due[0][0] <= now:
            partition = self._partitions.get(heapq.heappop(self._reads_due)[1])
            if partition is not None:
                partition.read_isr_again()
        if self._check_at is not None and self._check_at <= now:
            self._check_at = None
            for where in list(self.lagging):
                partition = self._partitions.get(where)
                if partition is None or not partition.shrink_isr(now):
                    del self.lagging[where]
            self._arm(now)

    def watch(self, wheres: Iterable[TopicPartition], now: int) -> None:
        """Check the followers of these partitions for lag from now on: records were appended, or this broker became the
        leader."""
        for where in wheres:
            if where not in self.lagging:
                partition = self._partitions.get(where)
                if partition is not None and isinstance(partition.role, LeaderRole) and partition.role.followers:
                    self.lagging[where] = None
        self._arm(now)

    def _arm(self, now: int) -> None:
        if self.lagging and self._check_at is None:
            self._check_at = now + self._settings.isr_check_ms

    # -- outcomes ------------------------------------------------------------------------------------------

    def completed(self, write: WriteIsr, outcome: Version | IsrWriteError, now: int) -> None:
        """Handle the outcome of an ISR write: the node's new version, or an error."""
        match outcome:
            case IsrWriteError.REFUSED:
                self.refused(write)
            case IsrWriteError.LOST:
                self.lost(write)
            case IsrWriteError.UNWANTED:
                self.unwanted(write, now)
            case IsrWriteError.GONE:
                self.gone(write.where, write.state.leader_epoch, now)
            case version:
                self.written(write, version, now)

    def written(self, write: WriteIsr, version: Version, now: int) -> None:
        self.propagation.changed(write.where, now)
        partition = self._partitions.get(write.where)
        if partition is not None and partition.isr_written(write, version, now):
            self._changed(write.where, now)
        self._end_turn(now)

    def refused(self, write: WriteIsr) -> None:
        """Handle a write that failed because the node is at another version."""
        self._doubt(write, lost=False)

    def lost(self, write: WriteIsr) -> None:
        """Handle a write whose outcome is unknown."""
        self._doubt(write, lost=True)

    def unwanted(self, write: WriteIsr, now: int) -> None:
        """Handle a write that was not made, because the registration of a joining broker is gone, or is a new one."""
        partition = self._partitions.get(write.where)
        if partition is not None and partition.isr_unwanted(write, now):
            self._changed(write.where, now)
        self._end_turn(now)

    def gone(self, where: TopicPartition, epoch: LeaderEpoch, now: int) -> None:
        """Handle a partition whose node does not exist."""
        partition = self._partitions.get(where)
        if partition is not None:
            partition.isr_gone(epoch)
        self._end_turn(now)

    def read(self, where: TopicPartition, epoch: LeaderEpoch, state: PartitionState | None, now: int) -> None:
        """Handle the content of a partition's node. `state` is None if the node does not exist."""
        self.propagation.changed(where, now)  # the ISR may have changed; an unnecessary notification is harmless
        if state is None:
            self.gone(where, epoch, now)
            return
        partition = self._partitions.get(where)
        found = None if partition is None else partition.isr_read(epoch, state, now)
        if found is Doubt.SETTLED:
            self._changed(where, now)
        elif found is Doubt.READ_AGAIN:
            self.unread(where, now)
        self._end_turn(now)

    def unread(self, where: TopicPartition, now: int) -> None:
        """Schedule another read of the node, because the store cannot be read now, or returned a stale state."""
        heapq.heappush(self._reads_due, (now + self._settings.isr_backoff_ms, where))

    def _doubt(self, write: WriteIsr, *, lost: bool) -> None:
        partition = self._partitions.get(write.where)
        if partition is not None:
            partition.isr_doubtful(write, lost=lost)

    def _changed(self, where: TopicPartition, now: int) -> None:
        self.lagging[where] = None
        self._arm(now)
        self._sessions.disturb(where)
