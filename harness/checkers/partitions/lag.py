"""The lag of ISR members: a follower that has not caught up for too long leaves the ISR, also while it is silent.

The checker reads the log ends of both replicas, and samples the leader's from time to time. A follower has caught up at
a time if its log now reaches the leader's log end of that time. A leader never knows more than that, so it must see the
lag as well. A leader whose request to the store is open, or that does not run, gets the time again from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from attrs import define, field

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import Key
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.replicas import Replicas
from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition

LEAVES: Final = "a follower that has not caught up within the lag time leaves the ISR"
MARGIN_MS: Final = 150
"""The time for the write of the ISR, and between two samples."""
PAUSED_MS: Final = 120
"""The time without a sample after which the leader's process counts as paused."""


@define(eq=False)
class Led:
    """One partition under one leader, in one leader epoch.

    since       the time since which the leader can remove followers from the ISR
    sampled     the time of the last sample
    times       the times at which a sample found the leader's log end grown
    ends        the log ends at these times
    caught_up   the newest time at which each ISR member had caught up, or joined the ISR
    """

    role: LeaderRole
    since: int
    sampled: int
    times: list[int] = field(factory=list)
    ends: list[int] = field(factory=list)
    caught_up: dict[BrokerId, int] = field(factory=dict)

    def sample(self, end: int, now: int) -> None:
        self.sampled = now
        if not self.ends or end > self.ends[-1]:
            self.times.append(now)
            self.ends.append(end)

    def last_within(self, end: int) -> int | None:
        """Return the last time at which the leader had no record from this offset on; None if that is now."""
        place = bisect_right(self.ends, end)
        return self.times[place] if place < len(self.times) else None


class Lag:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._led: dict[tuple[int, TopicPartition], Led] = {}
        settings = replicas.world.replication.settings
        self._limit_ms = settings.lag_time_max_ms + settings.isr_check_ms + MARGIN_MS

    def check(self, broker: Broker, requested: Collection[TopicPartition]) -> None:
        """Check the partitions that a broker leads. `requested`: those with an open request to the store."""
        for where, partition in broker.core.partitions.items():
            if isinstance(partition.role, LeaderRole):
                self._check(broker, partition, partition.role, where in requested)

    def _check(self, broker: Broker, partition: Partition, role: LeaderRole, requested: bool) -> None:
        where, now = partition.where, broker.clock()
        led = self._led.get((broker.id, where))
        if led is None or led.role is not role or now - led.sampled > PAUSED_MS:
            led = self._led[broker.id, where] = Led(role, now, now)
        led.sample(partition.log.end_offset, now)
        truth = self._replicas.truth_of(Key(where, broker.ident(partition)))
        state = truth.state
        if requested or state is None or (state.leader, state.leader_epoch) != (broker.id, role.epoch):
            led.since = now
        if state is None:
            return
        before, led.caught_up = led.caught_up, {}
        for follower in state.isr:
            if follower == broker.id:
                continue
            last = self._caught_up(led, truth.key, follower)
            since = led.caught_up[follower] = now if last is None else max(last, before.get(follower, now))
            if now - max(since, led.since) > self._limit_ms:
                text = f"is in the ISR of broker {broker.id}, and has not caught up for {now - since} ms"
                raise Violation(LEAVES, f"{where}: broker {follower} {text}")

    def _caught_up(self, led: Led, key: Key, follower: BrokerId) -> int | None:
        """Return a time at which the leader had no more records than the follower has; None if that is now.

        A follower whose disk has lost records counts as caught up, because its leader does not see the loss.
        """
        copy = self._replicas.copy(follower, key.where)
        has = len(copy.records) if copy is not None and copy.key == key else 0
        return None if (follower, key) in self._replicas.damage else led.last_within(has)
