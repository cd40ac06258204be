"""Logs for tests, and batches to append to them."""

from __future__ import annotations

from typing import Final, cast

from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition_log import PartitionLog
from replica.storage.files import Handles
from replica.storage.leader_epochs import LeaderEpochFileCache
from replica.storage.log_segment import LogSegment
from replica.storage.log_segments import LogSegments
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import walk
from replica.wire.compression import Codec
from replica.wire.records import Record, build, read_records
from tests.unit.replica.storage.list_segments import ListSegments

NOW: Final = 1_700_000_000_000
ALL: Final = 1 << 30


def batch(*values: bytes, time: int = NOW, key: bytes | None = None, codec: Codec = Codec.NONE) -> bytes:
    return build([Record(index, time, key, value) for index, value in enumerate(values)], codec=codec)


def numbered(base: int, epoch: int, *values: bytes, time: int = NOW) -> bytes:
    """As a leader has numbered it."""
    return build([Record(base + index, time, None, value) for index, value in enumerate(values)], leader_epoch=epoch)


def of_producer(producer_id: int, sequence: int, *values: bytes, epoch: int = 0, time: int = NOW) -> bytes:
    records = [Record(index, time, None, value) for index, value in enumerate(values)]
    return build(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def records_in(log: PartitionLog, offset: int | None = None) -> list[Record]:
    """All that can be read, batch by batch."""
    at = log.start_offset if offset is None else offset
    found: list[Record] = []
    while data := log.read(at, 1, log.end_offset).records:
        for position, header in walk(data):
            found += [record for record in read_records(data, position) if record.offset >= at]
            at = header.next_offset
    return found


def values_in(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in records_in(log, offset)]


class MemoryLog(UnifiedLog):
    """An empty log on a memory disk of its own."""

    def __init__(self, name: str = "memory-0", config: LogConfig | None = None) -> None:
        files = memory_directory()
        files.make_folder(name)
        handles = Handles(files)
        segments = LogSegments(handles, name, [LogSegment.create(handles, name, 0)])
        super().__init__(name, config or LogConfig(), segments, LeaderEpochFileCache(files, name), 0, 0)


def list_log(name: str = "list-0", config: LogConfig | None = None) -> UnifiedLog:
    """Return a log whose batches are in a list: the model of those in files."""
    segments = cast("LogSegments", ListSegments(name))
    return UnifiedLog(name, config or LogConfig(), segments, LeaderEpochFileCache(segments.files, name), 0, 0)
