"""Examines record batches before they are appended, large ones in threads, so that the event loop does not wait.

A few kilobytes may decompress to many megabytes, or hold a million records, which shows only during decompression. So
the event loop decompresses a batch up to a bound. If that is not enough, a thread examines the batch from its start.

There are two lanes of threads. The ordinary lane derives its bounds from the compressed size, and gives up at them. The
oversized lane, a single thread with the full bounds, then examines the batch again. So a batch of a few kilobytes that
decompresses to 64 MiB costs the ordinary lane no more than a normal batch, and normal batches do not queue behind it.
Searches for a timestamp have a thread of their own, because they decompress stored batches, which may be as large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio
from attrs import evolve, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.offset_lookup import Search, search
from replica.core.partitions.partition_log import BatchBounds, ExaminedBatch, PartitionLog, TimestampAndOffset
from replica.core.replica_messages import Produced
from replica.wire.batch import HEADER_BYTES, parse_header
from replica.wire.compression import INFLATED_BYTES_MAX
from replica.wire.validation import RECORDS_MAX
from zab.host.threads import InThread, in_thread


@frozen
class BatchExaminerSettings:
    """Limits, which apply to one batch unless stated otherwise. A record header counts as a record.

    batch_bytes_max        the decompressed size; a larger batch is refused
    batch_records_max      the number of records; a batch with more is refused
    light_bytes_max        uncompressed batches of one request are not examined in advance up to this total size
    unpacked_bytes_max     the decompressed size up to which the event loop examines a batch
    records_max            the number of records up to which the event loop examines a batch
    record_errors_max      the number of refused records that the response to one request names
    threads_max            threads of the ordinary lane; the oversized lane and searches have one more thread each, and
                           each may take twice `batch_bytes_max` of memory
    ordinary_bytes_max     the decompressed size in the ordinary lane, whatever the compressed size
    ordinary_ratio_max     the same limit as a multiple of the compressed size, if that allows more
    ordinary_record_bytes  the limit of records in the ordinary lane is its limit of bytes divided by this number
    """

    batch_bytes_max: int = INFLATED_BYTES_MAX
    batch_records_max: int = RECORDS_MAX
    light_bytes_max: int = 64 << 10
    unpacked_bytes_max: int = 1 << 20
    records_max: int = 16_384
    threads_max: int = 2
    record_errors_max: int = 10_000
    ordinary_bytes_max: int = 4 << 20
    ordinary_ratio_max: int = 32
    ordinary_record_bytes: int = 64

    @property
    def bounds(self) -> BatchBounds:
        return BatchBounds(self.batch_bytes_max, self.batch_records_max)

    @property
    def bounds_at_once(self) -> BatchBounds:
        return BatchBounds(
            min(self.batch_bytes_max, self.unpacked_bytes_max), min(self.batch_records_max, self.records_max)
        )

    def ordinary_bounds(self, size: int) -> BatchBounds:
        """Return the ordinary lane's bounds for a batch of `size` compressed bytes."""
        unpacked = max(self.ordinary_bytes_max, self.ordinary_ratio_max * size)
        return BatchBounds(
            min(self.batch_bytes_max, unpacked), min(self.batch_records_max, unpacked // self.ordinary_record_bytes)
        )


_OF_RECORDS: Final = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})
"""Errors that refer to single records."""
_CODEC_AT: Final = 22
"""The position of the low byte of a batch's attributes."""


class BatchExaminer:
    """Examines batches, large ones in two lanes of threads."""

    def __init__(self, settings: BatchExaminerSettings, in_thread: InThread = in_thread) -> None:
        self._settings = settings
        self._in_thread = in_thread
        self._bounds, self._bounds_at_once = settings.bounds, settings.bounds_at_once
        self._ordinary = trio.CapacityLimiter(settings.threads_max)
        self._oversized = trio.CapacityLimiter(1)
        self._searches = trio.CapacityLimiter(1)

    async def all_examined(
        self, entries: Sequence[tuple[TopicPartition, bytes]], log_of: Callable[[TopicPartition], PartitionLog | None]
    ) -> list[tuple[TopicPartition, bytes | ExaminedBatch]]:
        """Return the entries of one request, with examined batches in place of large or compressed ones.

        The batches are examined one after the other, and other tasks run in between.
        """
        ready: list[tuple[TopicPartition, bytes | ExaminedBatch]] = []
        left = self._settings.light_bytes_max
        for where, records in entries:
            log = log_of(where)
            if log is None:
                ready.append((where, records))
            elif len(records) <= left and _is_plain(records):
                left -= len(records)
                ready.append((where, records))
            else:
                ready.append((where, await self.examined(log, records)))
                if len(entries) > 1:
                    await trio.lowlevel.checkpoint()
        return ready

    async def examined(self, log: PartitionLog, records: bytes) -> bytes | ExaminedBatch:
        """Return the examined batch; the batch itself if the append will refuse it by its header."""
        if len(records) < HEADER_BYTES:
            return records
        if parse_header(records).record_count <= self._bounds_at_once.records_max:
            found = log.examine(records, self._bounds_at_once, definite=False)
            if found is not None:
                return found
        bounds = self._settings.ordinary_bounds(len(records))
        found = await self._in_thread(partial(log.examine, records, bounds), limiter=self._ordinary)
        if bounds != self._bounds and _is_beyond_bounds(found):
            found = await self._in_thread(partial(log.examine, records, self._bounds), limiter=self._oversized)
        return found or records

    async def with_record_errors(
        self,
        results: list[Produced],
        entries: Sequence[tuple[TopicPartition, bytes]],
        log_of: Callable[[TopicPartition], PartitionLog | None],
        clock: int,
    ) -> list[Produced]:
        """Add the records that caused refusals, so that clients fail only those and send the others again."""
        left = self._settings.record_errors_max
        named = []
        for result, (where, records) in zip(results, entries, strict=True):
            log = log_of(where) if result.error in _OF_RECORDS and left else None
            if log is not None:
                job = partial(log.refused_records, records, self._bounds, clock, left)
                found = await self._in_thread(job, limiter=self._oversized)
                left -= len(found)
                result = evolve(result, record_errors=found)
            named.append(result)
        return named

    async def searched(self, log: PartitionLog, timestamp: int) -> Search:
        """Search in a thread, since a whole batch may have to be decompressed.

        Return a `Search` that returns the result or raises the error, without searching again.
        """
        found: TimestampAndOffset | None = None
        wrong: KafkaError | None = None
        try:
            found = await self._in_thread(partial(search, log, timestamp), limiter=self._searches)
        except KafkaError as error:
            wrong = error

        def known(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
            if wrong is not None:
                raise wrong
            return found

        return known


def _is_beyond_bounds(found: ExaminedBatch | None) -> bool:
    """Return whether the examination stopped at a bound. Only then is the refusal MESSAGE_TOO_LARGE."""
    return found is not None and found.refusal is not None and found.refusal.code is ErrorCode.MESSAGE_TOO_LARGE


def _is_plain(records: bytes) -> bool:
    """Return whether a batch is uncompressed, or shorter than a header. It has at most one record or record header for
    each two bytes."""
    return len(records) < HEADER_BYTES or not records[_CODEC_AT] & 7
