"""The topic that groups are remembered in: how many partitions it has."""

from __future__ import annotations

from typing import Final

from kraft_controller.core.names import INTERNAL
from replica.runtime.topics import Topics

OFFSETS_TOPIC: Final = INTERNAL[0]


async def count_partitions(topics: Topics) -> int | None:
    """As the store knows it; None: there is no such topic.

    What a broker hears of the cluster may be a part of the topic, and a group that is looked for in the wrong partition
    has lost its positions.
    """
    topic = await topics.read(OFFSETS_TOPIC)
    return None if topic is None else len(topic.partitions)
