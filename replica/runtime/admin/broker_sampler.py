"""Samples of the last two minutes of a broker, one a second, for the charts of its page."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio
from attrs import frozen

from replica.core.partitions.leader_role import LeaderRole
from replica.runtime.admin.overview import is_under_replicated, lag_of, roles
from replica.runtime.broker import Broker

SAMPLE_S: Final = 1.0
SAMPLES_MAX: Final = 120


@frozen
class BrokerSample:
    """records   the growth of the logs led here since the previous sample: the number of new records and markers
    behind    the number of under-replicated partitions of the cluster
    lag       the known lag of all groups coordinated here
    """

    records: int
    behind: int
    lag: int


class BrokerSampler:
    """Takes a sample every second."""

    def __init__(self, broker: Broker) -> None:
        self.samples: deque[BrokerSample] = deque(maxlen=SAMPLES_MAX)
        self._broker = broker
        self._ends: dict[object, int] = {}

    async def run(self) -> None:
        while True:
            self._sample()
            await trio.sleep(SAMPLE_S)

    def _sample(self) -> None:
        before = self._ends
        partitions = self._broker.parts.replica_manager.core.partitions
        self._ends = {
            where: held.log.end_offset for where, held in partitions.items() if isinstance(held.role, LeaderRole)
        }
        written = sum(max(end - before[where], 0) for where, end in self._ends.items() if where in before)
        lag = sum(
            lag_of(self._broker, where, position.offset) or 0
            for group in self._broker.parts.group_coordinator.coordinator.groups
            for where, position in group.offsets.positions.items()
        )
        under_replicated = sum(is_under_replicated(self._broker, role) for role in roles(self._broker))
        self.samples.append(BrokerSample(written, under_replicated, lag))
