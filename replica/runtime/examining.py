"""What takes long about single batches is done in threads, so that nobody else waits for it.

A few kilobytes may be unpacked to many megabytes, or hold a million records. Neither can be known before it is tried:
so what is compressed is unpacked at once up to a bound, and given to a thread when it goes beyond.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import trio
from attrs import frozen

from replica.core.errors import KafkaError
from replica.core.log import Examined, Found, Log
from replica.core.offsets import Search, search
from replica.wire.batch import HEADER_BYTES, parse_header


@frozen
class ExaminingSettings:
    """unpacked_bytes_max   of one batch, that are unpacked at once
    records_max          of one batch, that are stepped through at once
    threads_max          batches under way in threads at a time; each may take twice what a batch may be unpacked to
    """

    unpacked_bytes_max: int = 1 << 20
    records_max: int = 16_384
    threads_max: int = 2


DEFAULT: Final = ExaminingSettings()
_CODEC_AT: Final = 22
_CODEC_AND_COUNT: Final = Struct(">B34xi")
"""The low byte of a batch's attributes, and how many records it has: all there is to know of most."""


class Examiner:
    def __init__(self, settings: ExaminingSettings = DEFAULT) -> None:
        self._settings = settings
        self._threads = trio.CapacityLimiter(settings.threads_max)

    def is_light(self, records: bytes) -> bool:
        """Not compressed, and no more records than are stepped through at once: it need not be examined."""
        if len(records) < HEADER_BYTES:
            return True
        attributes, count = _CODEC_AND_COUNT.unpack_from(records, _CODEC_AT)
        return not attributes & 7 and bool(count <= self._settings.records_max)

    async def examined(self, log: Log, records: bytes) -> bytes | Examined:
        """What the log is to be given in its place."""
        if self.is_light(records):
            return records
        if parse_header(records).record_count <= self._settings.records_max:
            found = log.examine(records, self._settings.unpacked_bytes_max)
            if found is not None:
                return found
        return await trio.to_thread.run_sync(log.examine, records, limiter=self._threads) or records

    async def searched(self, log: Log, timestamp: int) -> Search:
        """A whole batch may have to be unpacked for it; who searches with this gets what was found."""
        found: Found | None = None
        wrong: KafkaError | None = None
        try:
            found = await trio.to_thread.run_sync(search, log, timestamp, limiter=self._threads)
        except KafkaError as error:
            wrong = error

        def known(log: Log, timestamp: int) -> Found | None:
            if wrong is not None:
                raise wrong
            return found

        return known
