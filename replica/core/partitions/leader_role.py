"""The role of a replica that leads its partition in one leader epoch: its followers, the ISR and what is committed.

Each leader epoch has a new object, because followers may have truncated their logs in between. So a follower's log end
is unknown until it fetches in this epoch, and the high watermark does not advance until every ISR member has fetched.
The known log ends carry over only if this broker also led the previous epoch.
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
    """The log end when this epoch began. The records before it were appended in earlier leader epochs."""
    isr: Isr
    followers: dict[BrokerId, RemoteReplica] = field(factory=dict)
    """All other replicas of the assignment, and all other members of the ISR."""

    def assign(self, replicas: Iterable[BrokerId], now: int) -> None:
        """Adopt a new assignment. Replicas that stay keep their state; new followers in the ISR count as caught up
        now."""
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
        """Return the new high watermark: the least log end of the ISR and of the replicas about to join it.

        Replicas about to join (`_joins`) count, because otherwise a busy leader's high watermark would always be ahead
        of them, and they would never qualify. `end` is the leader's own log end; with `sync_writes`, the end of the
        durable part of its log.
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
        """Return whether a follower is outside the ISR, and has all records that this or an earlier leader may have
        committed.

        The high watermark alone does not suffice (KAFKA-7128): a new leader's high watermark lags, and earlier leaders
        may have committed everything before `start_offset`.
        """
        return (
            follower.id not in self.isr.maximal
            and follower.end_offset >= high_watermark
            and follower.end_offset >= self.start_offset
        )

    def out_of_sync(self, end: int, now: int, settings: ReplicaSettings) -> tuple[BrokerId, ...]:
        """Return the ISR members that lag too far behind: see `RemoteReplica.in_sync`. `end`: the leader's log end."""
        return tuple(
            broker
            for broker in self.isr.members
            if broker != self.me and not self.followers[broker].in_sync(end, now, settings)
        )

    def all_have(self, end: int) -> bool:
        """Return whether every ISR member has all records before `end`. Until the next append, none can fall behind."""
        return all(self.followers[broker].end_offset == end for broker in self.isr.members if broker != self.me)

    def least_start(self, own: int, live: Collection[BrokerId]) -> int:
        """Return the smallest log start of this replica and the live followers; UNKNOWN if one of them has not fetched
        yet."""
        starts = [follower.start_offset for follower in self.followers.values() if follower.id in live]
        return UNKNOWN if UNKNOWN in starts else min([own, *starts])

    def state(self, members: tuple[BrokerId, ...]) -> PartitionState:
        """Return the partition state to write to the store. Its recovery state is RECOVERED, even after an unclean
        election."""
        return PartitionState(self.me, members, self.epoch, self.controller_epoch, version=self.isr.version)
