"""The topics that coordinators live on, of groups and of transactions: how many partitions they have."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import INTERNAL
from replica.runtime.topics import Topics

OFFSETS_TOPIC: Final = INTERNAL[0]
TRANSACTIONS_TOPIC: Final = INTERNAL[1]


class CoordinatedTopic:
    """What a broker hears of the cluster may be a part of the topic, and a group that is looked for in the wrong
    partition has lost its positions: so the store is asked, once for each topic of that name."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.name = name
        self._topics = topics
        self._count: int | None = None
        self._lives = 0

    async def count(self) -> int | None:
        """As the store knows it; None: there is no such topic."""
        while self._count is None:
            life = self._lives
            topic = await self._topics.read(self.name)
            if topic is None:
                return None
            if life == self._lives:
                self._count = len(topic.partitions)
        return self._count

    def changed(self) -> None:
        """It was deleted, or there is a new one."""
        self._lives += 1
        self._count = None
