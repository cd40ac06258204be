"""The log of an internal topic, as the coordinator that lives on it needs it: written by it alone, and read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.log_reading import Reading
from replica.core.partition_log import PartitionLog
from replica.wire import batch, records

READ_BYTES: Final = 64 * 1024
"""A few hundred records: while they are taken in nobody else is served."""
LOOK_AGAIN_S: Final = 0.05
"""How often it is looked whether followers have what a load has read, and whether there is the topic by now."""
LOAD_AGAIN_S: Final = 1.0
"""A partition whose log cannot be read is tried again after this, for as long as it is led here."""

Take = Callable[[batch.Header, Iterator[records.Record]], None]


class CoordinatorStorage(Protocol):
    """What is asked of the replica manager."""

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """With acks = all. What is called first is written first. `done` is called once, at once or later: NONE and the
        offset of the first record, or the error."""

    def held(self, where: TopicPartition) -> tuple[PartitionLog, int] | None:
        """Its log, and its high watermark now; None where this broker has no replica of it."""


async def read_all(storage: CoordinatorStorage, where: TopicPartition, wanted: Callable[[], bool], take: Take) -> bool:
    """Batch by batch. False: it is not here, or not wanted any more."""
    found = storage.held(where)
    if found is None:
        return False
    log, _ = found
    reading = Reading(log.start_offset, log.end_offset)
    while reading.unread:
        at, end = reading.at, reading.end
        reading.at = _taken(take, log.read(at, READ_BYTES, end).records, at, end)
        await trio.lowlevel.checkpoint()
        if not wanted():
            return False
    while (found := storage.held(where)) is not None and not reading.safe(found[1]):
        await trio.sleep(LOOK_AGAIN_S)
        if not wanted():
            return False
    return found is not None


def _taken(take: Take, data: bytes, at: int, end: int) -> int:
    """Returns where to go on."""
    following = end  # behind the last batch there may be nothing, where the cleaner was
    for position, header in batch.walk(data):
        following = header.next_offset
        take(header, (record for record in records.read_records(data, position) if record.offset >= at))
    return following
