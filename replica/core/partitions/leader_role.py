"""The role of a replica that leads its partition in one leader epoch: its followers, the ISR and what is committed.

The object is dropped with the role. A follower may have truncated between two epochs, so its position in one epoch says
nothing of the next: every position is unknown until the follower has fetched in this epoch, and until then nothing
commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attrs import define, field

from kraft_controller.core.names import BrokerId, ControllerEpoch, LeaderEpoch
from kraft_controller.core.state import PartitionState
from replica.core.partitions.isr import Isr
from replica.core.partitions.remote_replica import UNKNOWN, RemoteReplica
from replica.core.replica_settings import ReplicaSettings


@define
class LeaderRole:
    """The state of a leader: its followers, and the ISR that it maintains."""

    me: BrokerId
    epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    """The epoch of the controller that made this broker the leader."""
    start_offset: int
    """The log end when this epoch began: earlier records are of other leaders."""
    isr: Isr
    followers: dict[BrokerId, RemoteReplica] = field(factory=dict)
    """All other replicas of the assignment, and all other members of the ISR."""

    def assign(self, replicas: Iterable[BrokerId], now: int) -> None:
        """Take a new assignment. Replicas that stay keep their position; members of the ISR begin in sync."""
        before = self.followers
        self.followers = {}
        for broker in (*replicas, *self.isr.members):
            if broker != self.me and broker not in self.followers:
                known = before.get(broker)
                if known is None:
                    known = RemoteReplica(broker)
                    if broker in self.isr.members:
                        known.caught_up_ms = now
                self.followers[broker] = known

    def committed(self, end: int, now: int, live: Collection[BrokerId], settings: ReplicaSettings) -> int:
        """Return the offset before which every replica that has to have the records has them.

        `end`: the leader's own log end, as far as it counts. Replicas that are about to join the ISR have to have them
        too: otherwise a busy leader would always be a step ahead, and they would never reach the high watermark.
        """
        maximal, least = self.isr.maximal, end
        for follower in self.followers.values():
            has = follower.end_offset
            if has < least and (follower.id in maximal or self._joins(follower, end, now, live, settings)):
                least = has
        return least

    def _joins(
        self, follower: RemoteReplica, end: int, now: int, live: Collection[BrokerId], settings: ReplicaSettings
    ) -> bool:
        return (
            follower.end_offset >= self.start_offset
            and follower.id in live
            and not self.isr.superseded
            and follower.in_sync(end, now, settings)
        )

    def may_join(self, follower: RemoteReplica, high_watermark: int) -> bool:
        """Return whether a follower has all records that this leader or an earlier one may have committed.

        The high watermark alone does not suffice (KAFKA-7128): a new leader's lags, and earlier leaders may have
        committed everything before `start_offset`.
        """
        return (
            follower.id not in self.isr.maximal
            and follower.end_offset >= high_watermark
            and follower.end_offset >= self.start_offset
        )

    def out_of_sync(self, end: int, now: int, settings: ReplicaSettings) -> tuple[BrokerId, ...]:
        """Return the members of the ISR that have lagged for too long, with the log end offset `end`."""
        return tuple(
            broker
            for broker in self.isr.members
            if broker != self.me and not self.followers[broker].in_sync(end, now, settings)
        )

    def all_have(self, end: int) -> bool:
        """Return whether every member of the ISR has everything: then none can lag before more is written."""
        return all(self.followers[broker].end_offset == end for broker in self.isr.members if broker != self.me)

    def least_start(self, own: int, live: Collection[BrokerId]) -> int:
        """Return the first offset that some live replica still has."""
        starts = [follower.start_offset for follower in self.followers.values() if follower.id in live]
        return UNKNOWN if UNKNOWN in starts else min([own, *starts])

    def state(self, members: tuple[BrokerId, ...]) -> PartitionState:
        """Return the state to write. A leader has recovered, even if its election was unclean."""
        return PartitionState(self.me, members, self.epoch, self.controller_epoch, version=self.isr.version)
