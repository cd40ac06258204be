"""The last two minutes of a broker, a beat for each second: what the page draws."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio
from attrs import frozen

from replica.core.leader_role import LeaderRole
from replica.runtime.admin.overview import behind, lag_of, roles
from replica.runtime.broker import Broker

BEAT_S: Final = 1.0
BEATS_MAX: Final = 120


@frozen
class BrokerSample:
    """records   written to partitions that are led here, since the beat before
    behind    partitions of the cluster that are under-replicated
    lag       of all groups that are coordinated here, as far as it is known
    """

    records: int
    behind: int
    lag: int


class BrokerSampler:
    def __init__(self, broker: Broker) -> None:
        self.beats: deque[BrokerSample] = deque(maxlen=BEATS_MAX)
        self._broker = broker
        self._ends: dict[object, int] = {}

    async def run(self) -> None:
        while True:
            self._beat()
            await trio.sleep(BEAT_S)

    def _beat(self) -> None:
        before = self._ends
        partitions = self._broker.replication.core.partitions
        self._ends = {
            where: held.log.end_offset for where, held in partitions.items() if isinstance(held.role, LeaderRole)
        }
        written = sum(max(end - before[where], 0) for where, end in self._ends.items() if where in before)
        lag = sum(
            lag_of(self._broker, where, position.offset) or 0
            for group in self._broker.groups.coordinator.groups
            for where, position in group.offsets.positions.items()
        )
        under_replicated = sum(behind(self._broker, role) for role in roles(self._broker))
        self.beats.append(BrokerSample(written, under_replicated, lag))
