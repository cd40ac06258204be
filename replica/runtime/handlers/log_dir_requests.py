"""`DescribeLogDirs`: the partitions of each log directory, and their sizes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime, LogSize
from replica.runtime.requests import Handlers, Request, handler_table, handles
from replica.wire.schemas.topic_schemas import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handlers(disk: LogManagerRuntime, watermarks: Callable[[], Mapping[TopicPartition, int]]) -> Handlers:
    here = Path.cwd()

    async def describe(request: Request[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
        named = request.body.topics
        wanted = (
            None
            if named is None
            else {TopicPartition(topic.topic, number) for topic in named for number in topic.partitions}
        )
        committed = watermarks()
        results = []
        for where, failed in disk.paths.items():
            path = f"{here / where}"  # an absolute path, for clients with another working directory
            if failed is not None:
                results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path))
                continue
            held = [each for each in disk.held_in(where) if wanted is None or each.where in wanted]
            total, usable = await _space(disk, where)
            results.append(
                DescribeLogDirsResult(
                    log_dir=path, topics=_by_topic(held, committed), total_bytes=total, usable_bytes=usable
                )
            )
        return DescribeLogDirsResponse(results=results)

    return handler_table(handles(DESCRIBE_LOG_DIRS, describe))


def _by_topic(held: list[LogSize], committed: Mapping[TopicPartition, int]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for each in held:
        topics.setdefault(each.where.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=each.where.partition,
                partition_size=each.size,
                offset_lag=max(committed.get(each.where, 0) - each.end_offset, 0),
                is_future_key=False,
            )
        )
    return [DescribeLogDirsTopic(name=name, partitions=parts) for name, parts in topics.items()]


async def _space(disk: LogManagerRuntime, where: str) -> tuple[int, int]:
    """Return the total and the usable bytes of a directory's file system; -1 each if they cannot be read."""
    try:
        found = await disk.in_thread(partial(shutil.disk_usage, where))
    except OSError:
        return -1, -1
    return found.total, found.free
