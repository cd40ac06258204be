"""The writes of one WriteTxnMarkers request at the leader of its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode

OffsetsEnded: TypeAlias = Callable[[int, int, bool, int], None]
"""Called for each marker in the offsets topic that is known to be committed, with its partition, its producer id,
whether it commits the transaction, and its offset. A repeated marker is reported again."""


class MarkerWrites:
    """Collects the outcome of each marker, and reports those in the offsets topic to the group coordinator.

    The offsets that a producer committed in a group take effect with the marker, even if the request's connection was
    closed meanwhile.
    """

    def __init__(self, count: int, offsets_ended: OffsetsEnded, complete: Callable[[], None]) -> None:
        """`complete` is called when all `count` markers have an outcome."""
        self.outcomes: dict[int, ErrorCode] = {}
        """The outcome of each marker, by its place in the request."""
        self._count = count
        self._offsets_ended = offsets_ended
        self._complete = complete

    def written(
        self, place: int, where: TopicPartition, producer: int, committed: bool, error: ErrorCode, offset: int
    ) -> None:
        """Handle the outcome of a marker's write. Without an error the marker is replicated, and has this offset.
        `committed`: True for a COMMIT marker, False for an ABORT marker."""
        if error is ErrorCode.NONE and where.topic == OFFSETS_TOPIC:
            self._offsets_ended(where.partition, producer, committed, offset)
        self.outcomes[place] = error
        if len(self.outcomes) == self._count:
            self._complete()
