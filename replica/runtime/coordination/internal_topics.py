"""The internal topics of coordinators: their configuration, and their creation on demand."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica.runtime.configuration.broker_config import OffsetsTopicSettings, TransactionsTopicSettings
from replica.runtime.store.internal_topic_size import InternalTopicSize
from replica.runtime.store.topic_manager import TopicManager

OFFSETS_CONFIG: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    # The timestamps are times of the coordinator's clock, which is never set back. If the leader's wall clock is set
    # back, they are in the future, and the leader must not refuse the records.
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
TRANSACTIONS_CONFIG: Final = {
    **OFFSETS_CONFIG,
    "compression.type": "uncompressed",
    "unclean.leader.election.enable": "false",
}


class InternalTopics:
    """Creates topics on demand. Internal topics get their own settings."""

    def __init__(
        self, topics: TopicManager, offsets: OffsetsTopicSettings, transactions: TransactionsTopicSettings
    ) -> None:
        self.offsets = InternalTopicSize(topics, OFFSETS_TOPIC)
        self.transactions = InternalTopicSize(topics, TRANSACTIONS_TOPIC)
        self._topics = topics
        self._offsets = offsets
        self._transactions = transactions

    async def create(self, name: str) -> None:
        """Create a missing topic, internal or not."""
        if name == OFFSETS_TOPIC:
            wanted = self._offsets
            configs = {**OFFSETS_CONFIG, "segment.bytes": str(wanted.segment_bytes)}
            await self._topics.make_if_missing(name, wanted.partitions, wanted.factor, configs)
        elif name == TRANSACTIONS_TOPIC:
            chosen = self._transactions
            configs = {
                **TRANSACTIONS_CONFIG,
                "segment.bytes": str(chosen.segment_bytes),
                "min.insync.replicas": str(chosen.min_insync),
            }
            await self._topics.make_if_missing(name, chosen.partitions, chosen.factor, configs)
        else:
            await self._topics.make_if_missing(name)
