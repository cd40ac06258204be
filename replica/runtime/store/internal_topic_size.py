"""The number of partitions of an internal topic, read from the store."""

from __future__ import annotations

from replica.runtime.store.topic_manager import TopicManager


class InternalTopicSize:
    """Reads the number of partitions from the store, once for each incarnation of the topic.

    The metadata cache does not suffice: it may know only some of the partitions, and with a wrong number a lookup would
    return the wrong coordinator of a group or transactional id.
    """

    def __init__(self, topics: TopicManager, name: str) -> None:
        self.name = name
        self._topics = topics
        self._count: int | None = None
        """The number of partitions; None if it was not read since the topic was last created or deleted."""
        self._changes = 0

    async def count(self) -> int | None:
        """Return the number of partitions, or None if the topic does not exist. Raises `KafkaError` if the topic cannot
        be read."""
        while self._count is None:
            changes = self._changes
            topic = await self._topics.read(self.name)
            if topic is None:
                return None
            if changes == self._changes:
                self._count = len(topic.partitions)
        return self._count

    def changed(self) -> None:
        """Forget the number, because the topic was created or deleted."""
        self._changes += 1
        self._count = None
