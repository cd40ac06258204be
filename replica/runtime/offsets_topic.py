"""The topic that groups are remembered in: how it is made, and how many partitions it has."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from kraft_controller.core.names import INTERNAL
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.topics import Topics

OFFSETS_TOPIC: Final = INTERNAL[0]


@frozen
class OffsetsTopicSettings:
    """`offsets.topic.num.partitions`: once there are positions in them there can never be another number
    `offsets.topic.replication.factor`: until there are so many brokers no group can be coordinated
    `offsets.topic.segment.bytes`: small, so that compaction gets at most of it
    """

    partitions: int = 50
    factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024


class OffsetsTopic:
    def __init__(self, topics: Topics, settings: OffsetsTopicSettings | None = None) -> None:
        self._topics = topics
        self._settings = settings or OffsetsTopicSettings()

    async def count(self) -> int | None:
        """Of its partitions, as the store knows it; None: there is no such topic."""
        try:
            return len((await self._topics.read(OFFSETS_TOPIC)).partitions)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    async def make(self) -> None:
        await self._topics.make_if_missing(
            OFFSETS_TOPIC,
            self._settings.partitions,
            self._settings.factor,
            cleanup_policy="compact",
            compression_type="producer",
            # A coordinator's clock is not set while it runs; a broker's that is set back would refuse its records.
            message_timestamp_after_max_ms=str(2**63 - 1),
            segment_bytes=str(self._settings.segment_bytes),
        )
