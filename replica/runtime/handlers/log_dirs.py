"""What is in the log directories of this broker: how much, of which partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.runtime.disk import Disk, Held
from replica.runtime.requests import ApiKey, Body, Handlers, Request


def handlers(disk: Disk, watermarks: Callable[[], Mapping[TopicPartition, int]]) -> Handlers:
    here = Path.cwd()

    async def describe(request: Request) -> Body:
        asked = request.body["topics"]
        wanted = (
            None
            if asked is None
            else {TopicPartition(topic["topic"], number) for topic in asked for number in topic["partitions"]}
        )
        committed = watermarks()
        results = []
        for where, failed in disk.paths.items():
            path = f"{here / where}"  # whoever asks may be in another folder than the broker
            if failed is not None:
                results.append({"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": path, "topics": []})
                continue
            held = [each for each in disk.held_in(where) if wanted is None or each.where in wanted]
            results.append({"log_dir": path, "topics": _by_topic(held, committed), **await _space(where)})
        return {"results": results}

    return {ApiKey.DESCRIBE_LOG_DIRS: describe}


def _by_topic(held: list[Held], committed: Mapping[TopicPartition, int]) -> list[Body]:
    topics: dict[str, list[Body]] = {}
    for each in held:
        topics.setdefault(each.where.topic, []).append(
            {
                "partition_index": each.where.partition,
                "partition_size": each.size,
                "offset_lag": max(committed.get(each.where, 0) - each.end_offset, 0),
                "is_future_key": False,
            }
        )
    return [{"name": name, "partitions": parts} for name, parts in topics.items()]


async def _space(where: str) -> Body:
    try:
        found = await trio.to_thread.run_sync(shutil.disk_usage, where)
    except OSError:
        return {}
    return {"total_bytes": found.total, "usable_bytes": found.free}
