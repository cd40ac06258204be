"""The partitions of a coordinator's topic. The coordinator alone writes them, and reads each once, when it loads it."""

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
"""A few hundred records. No other task runs while they are replayed."""
LOOK_AGAIN_S: Final = 0.05
"""The interval of checks whether followers have what a load has read, and whether the topic exists by now."""
LOAD_AGAIN_S: Final = 1.0
"""The pause before an unreadable partition is loaded again, while this broker leads it."""

Take = Callable[[batch.Header, Iterator[records.Record]], None]


class CoordinatorStorage(Protocol):
    """The part of the replica manager that coordinators use."""

    def append(
        self, where: TopicPartition, records: bytes, timeout_ms: int, done: Callable[[ErrorCode, int], None]
    ) -> None:
        """Append with acks=all, in the order of the calls. `done` is called once, now or later: with NONE and the
        offset of the first record, or the error."""

    def held(self, where: TopicPartition) -> tuple[PartitionLog, int] | None:
        """Return the log of a replica and its high watermark; None if this broker holds no replica."""


async def read_all(storage: CoordinatorStorage, where: TopicPartition, wanted: Callable[[], bool], take: Take) -> bool:
    """Read a partition batch by batch. Return whether all of it was read; not if it is gone or not wanted any more."""
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
    """Pass batches on. Return the offset to read from next."""
    following = end  # the cleaner may have left nothing up to the end
    for position, header in batch.walk(data):
        following = header.next_offset
        take(header, (record for record in records.read_records(data, position) if record.offset >= at))
    return following
