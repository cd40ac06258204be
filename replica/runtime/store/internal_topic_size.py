"""The number of partitions of an internal topic, as the store has it."""

from __future__ import annotations

from replica.runtime.store.topic_manager import TopicManager


class InternalTopicSize:
    """Reads the number of partitions from the store, once for each incarnation of the topic.

    The metadata cache does not suffice: it may hold a part of the topic only, and a lookup with a wrong number of
    partitions leads to a coordinator without the group's offsets.
    """

    def __init__(self, topics: TopicManager, name: str) -> None:
        self.name = name
        self._topics = topics
        self._count: int | None = None
        """None: not read since the last change of the topic."""
        self._changes = 0

    async def count(self) -> int | None:
        """Return the number of partitions, or None if the topic does not exist."""
        while self._count is None:
            changes = self._changes
            topic = await self._topics.read(self.name)
            if topic is None:
                return None
            if changes == self._changes:
                self._count = len(topic.partitions)
        return self._count

    def changed(self) -> None:
        """Forget the number: the topic was created, deleted, or created again."""
        self._changes += 1
        self._count = None
