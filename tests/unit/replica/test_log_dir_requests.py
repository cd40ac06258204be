"""DescribeLogDirs, and retention of the logs in the log directories."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.partitions.log_config import LogConfig
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.handlers.log_dir_requests import handlers
from replica.runtime.logs import Log
from replica.runtime.replication.log_manager_runtime import LogManagerPace, LogManagerRuntime
from replica.runtime.requests import ApiKey, Request
from replica.storage.log_manager import ManagerSettings
from replica.storage.unified_log import UnifiedLog
from tests.kafka_bodies import on_values
from tests.unit.replica.storage.logs import NOW, batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Reconfigures:
    def __init__(self, disk: LogManagerRuntime) -> None:
        self._disk = disk

    def topic_wanted(self, topic: str) -> None:
        """The test sets what it wants."""

    def topic_configured(self, topic: str, config: LogConfig) -> None:
        self._disk.reconfigure(topic)


def test_partitions_are_described_with_size_and_lag(tmp_path: Path) -> None:
    async def main() -> None:
        log = Log(1)
        disk = LogManagerRuntime((tmp_path / "one", tmp_path / "two"), TopicConfigs(LogConfig(), log), log, lambda: NOW)
        await disk.load(BrokerId(1), "cluster")
        for where in (A0, A1, B0):
            disk.open(where, None, begins=True).append_as_leader(batch(b"a", b"b"), 0, NOW)

        async def told(topics: object) -> list[dict[str, Any]]:
            describe = on_values(handlers(disk, lambda: {A0: 2, A1: 5}))[ApiKey.DESCRIBE_LOG_DIRS]
            reply = await describe(Request(ApiKey.DESCRIBE_LOG_DIRS, 4, 1, "me", {"topics": topics}, "IN"))
            assert reply is not None
            found: list[dict[str, Any]] = reply["results"]
            return found

        def parts(told: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
            return {
                (topic["name"], part["partition_index"]): (part["partition_size"], part["offset_lag"])
                for topic in told["topics"]
                for part in topic["partitions"]
            }

        one, two = await told(None)
        assert [one["log_dir"], two["log_dir"]] == [str(tmp_path / "one"), str(tmp_path / "two")]
        size = len(batch(b"a", b"b"))
        assert parts(one) | parts(two) == {A0: (size, 0), A1: (size, 3), B0: (size, 0)}
        assert one["total_bytes"] >= one["usable_bytes"] > 0
        found = [parts(each) for each in await told([{"topic": "a", "partitions": [1, 7]}])]
        assert sorted(found, key=len) == [{}, {A1: (size, 3)}]
        disk._logs.directories[0].files.errors.error("write", "x", errno.ENOSPC)
        broken, sound = await told(None)
        assert (broken["error_code"], broken["topics"]) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        assert sound["error_code"] == ErrorCode.NONE
        await disk.close(-1)

    trio.run(main)


def test_retention_deletes_log_by_log_and_keeps_uncommitted_records(tmp_path: Path) -> None:
    """Retention is a task of its own, and writes the new log starts at its end. A topic with unknown settings keeps
    all records."""

    async def main() -> None:
        log, pace = Log(1), LogManagerPace(retention_check_s=0.01)
        configs = TopicConfigs(LogConfig(segment_bytes=150, retention_ms=1_000), log)
        disk = LogManagerRuntime((tmp_path,), configs, log, lambda: NOW + 1_001, pace)
        await disk.load(BrokerId(1), "cluster")
        logs = {where: disk.open(where, None, begins=True) for where in (A0, A1, B0)}
        for each in logs.values():
            for _ in range(3):
                each.append_as_leader(batch(b"x" * 60), 0, NOW)
        checkpoint = tmp_path / "log-start-offset-checkpoint"
        configs.set("a", {})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.run, lambda: {A0: 3, A1: 2, B0: 3})
            with trio.fail_after(60):
                while not checkpoint.exists() or "a 0 3" not in checkpoint.read_text():
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert [each.start_offset for each in logs.values()] == [3, 2, 0]
        await disk.close(-1)

    trio.run(main)


def test_log_that_cannot_be_flushed_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        log, pace = Log(1), LogManagerPace(flush_check_s=0.01)
        configs = TopicConfigs(LogConfig(flush_ms=1), log)
        disk = LogManagerRuntime((tmp_path,), configs, log, lambda: int(trio.current_time() * 1000), pace)
        await disk.load(BrokerId(1), "cluster")
        logs = [cast(UnifiedLog, disk.open(where, None, begins=True)) for where in (A0, A1, B0)]
        for each in logs:
            each.append_as_leader(batch(b"x"), 0, NOW)
        monkeypatch.setattr(logs[0], "flush", lambda: 1 // 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.run, dict)
            with trio.fail_after(60):
                while [each.recovery_point for each in logs] != [0, 1, 1]:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        monkeypatch.undo()
        await disk.close(-1)

    trio.run(main)


def test_progress_is_logged_while_logs_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "replica")

    async def main() -> None:
        log = Log(1)

        async def loaded(pause_s: float) -> tuple[LogManagerRuntime, list[str]]:
            monkeypatch.setattr("replica.runtime.replication.log_manager_runtime.LOADING_S", pause_s)
            disk = LogManagerRuntime((tmp_path,), TopicConfigs(LogConfig(), log), log, lambda: NOW)
            caplog.clear()
            await disk.load(BrokerId(1), "cluster")
            return disk, [line for line in caplog.messages if line.startswith("logs_loading")]

        disk, _ = await loaded(3_600.0)
        for number in range(5):
            disk.open(TopicPartition("a", number), None, begins=True)
        await disk.close(-1)
        disk, said = await loaded(0.0)
        assert [line.split()[2:4] for line in said] == [[f"done={number}", "of=5"] for number in range(1, 6)]
        await disk.close(-1)
        disk, said = await loaded(3_600.0)
        assert said == []
        await disk.close(-1)

    trio.run(main)


def test_pause_of_cleaner_changes_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        log, looks = Log(1), 0
        disk = LogManagerRuntime(
            (tmp_path,), TopicConfigs(LogConfig(), log), log, lambda: NOW, LogManagerPace(clean_pause_s=86_400)
        )
        await disk.load(BrokerId(1), "cluster")

        def look(*_: object) -> None:
            nonlocal looks
            looks += 1

        manager: Any = disk._logs
        manager.clean_one = look
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.run, dict)
            await trio.testing.wait_all_tasks_blocked()
            assert looks == 0
            disk.configure_cleaner(cleans=True, pause_s=0.0)
            with trio.fail_after(60):
                while looks < 2:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        await disk.close(-1)

    trio.run(main)


def test_full_directory_is_shortened_when_topic_settings_arrive(tmp_path: Path) -> None:
    async def main() -> None:
        log, little = Log(1), ManagerSettings(little_room_bytes=1 << 60)
        configs = TopicConfigs(LogConfig(segment_bytes=150), log)
        disk = LogManagerRuntime((tmp_path,), configs, log, lambda: NOW, settings=little)
        configs.add_listener(Reconfigures(disk))
        await disk.load(BrokerId(1), "cluster")
        await disk.make_room()  # there is nothing to delete, and no wait
        kept = disk.open(A0, None, begins=True)
        for _ in range(3):
            kept.append_as_leader(batch(b"x" * 60), 0, NOW)
        disk.keep_high_watermarks({A0: 3})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.make_room)
            await trio.testing.wait_all_tasks_blocked()
            assert kept.start_offset == 0
            configs.set("a", {"retention.bytes": "0"})
        assert kept.start_offset == 3
        await disk.close(-1)

    trio.run(main)
