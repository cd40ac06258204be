"""Leading a partition in one leader epoch: what its followers have, who is in sync, and so what is committed.

The object is dropped with the role. What a follower had in another epoch says nothing of this one, since it may have
truncated in between: so nobody's offset is known until he has fetched in this epoch, and until then nothing commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attrs import define, field

from kraft_controller.core.names import BrokerId, ControllerEpoch, LeaderEpoch
from kraft_controller.core.state import PartitionState
from replica.core.followers import UNKNOWN, Follower
from replica.core.isr import Isr
from replica.core.settings import Settings


@define
class Leading:
    """start_offset   LEO when this epoch began: what is before it, other leaders have written"""

    me: BrokerId
    epoch: LeaderEpoch
    controller_epoch: ControllerEpoch
    start_offset: int
    isr: Isr
    followers: dict[BrokerId, Follower] = field(factory=dict)

    def assign(self, replicas: Iterable[BrokerId], now: int) -> None:
        """Who holds a replica. Of those that stay it is kept what they have; members of the ISR begin as in sync."""
        before = self.followers
        self.followers = {}
        for broker in (*replicas, *self.isr.members):
            if broker != self.me and broker not in self.followers:
                known = before.get(broker)
                if known is None:
                    known = Follower(broker)
                    if broker in self.isr.members:
                        known.caught_up_ms = now
                self.followers[broker] = known

    def committed(self, end: int, now: int, live: Collection[BrokerId], settings: Settings) -> int:
        """What is before this offset is with all that have to have it. `end`: our own LEO, or what counts of it.

        Beside the ISR that is whoever is about to join: were he not waited for, a busy leader would always be a step
        ahead of him, and he would never reach what is committed.
        """
        maximal, least = self.isr.maximal, end
        for follower in self.followers.values():
            has = follower.end_offset
            if has < least and (follower.id in maximal or self._joins(follower, end, now, live, settings)):
                least = has
        return least

    def _joins(self, follower: Follower, end: int, now: int, live: Collection[BrokerId], settings: Settings) -> bool:
        return (
            follower.end_offset >= self.start_offset
            and follower.id in live
            and not self.isr.superseded
            and follower.in_sync(end, now, settings)
        )

    def may_join(self, follower: Follower, high_watermark: int) -> bool:
        """Whether he may be in the ISR: he has what is committed, and what may have been under leaders before.

        Our own high watermark alone will not do: that of a new leader lags, and what other leaders have committed
        above it ends at `start_offset`.
        """
        return (
            follower.id not in self.isr.maximal
            and follower.end_offset >= high_watermark
            and follower.end_offset >= self.start_offset
        )

    def out_of_sync(self, end: int, now: int, settings: Settings) -> tuple[BrokerId, ...]:
        return tuple(
            broker
            for broker in self.isr.members
            if broker != self.me and not self.followers[broker].in_sync(end, now, settings)
        )

    def all_have(self, end: int) -> bool:
        """Whether every member of the ISR has everything: then none can be found to lag before more is written."""
        return all(self.followers[broker].end_offset == end for broker in self.isr.members if broker != self.me)

    def least_start(self, own: int, live: Collection[BrokerId]) -> int:
        """The first offset that is still there with anybody who is alive."""
        starts = [follower.start_offset for follower in self.followers.values() if follower.id in live]
        return UNKNOWN if UNKNOWN in starts else min([own, *starts])

    def state(self, members: tuple[BrokerId, ...]) -> PartitionState:
        """To be written. Whoever leads has recovered, whatever he was elected for."""
        return PartitionState(self.me, members, self.epoch, self.controller_epoch, version=self.isr.version)
