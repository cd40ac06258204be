"""A partition's log by itself: appends, reads, and the start of a broker with a thousand of them that was killed.

No network and no client. Rates are told for a second of CPU, because others may be at work on the machine; the start
also for a second of the clock, and from a warm page cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Final

from bench.report import Result, median, publish
from replica.core.partitions.log_config import LogConfig
from replica.storage.log_manager import LogManager
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import walk
from replica.wire.records import batch_of

NOW: Final = 1_700_000_000_000
MIB: Final = 1 << 20
SHAPES: Final = {"1 x 100 B": (1, 100), "16 x 1 KiB": (16, 1024), "100 x 100 B": (100, 100), "1 x 64 KiB": (1, 65_536)}


def manager_at(path: Path) -> LogManager:
    manager = LogManager.open([str(path)], lambda topic: LogConfig())
    manager.load(1, "bench")
    return manager


def fresh(path: Path) -> tuple[LogManager, UnifiedLog]:
    rmtree(path, ignore_errors=True)
    manager = manager_at(path)
    return manager, manager.get_or_create(("bench", 0))


def batch(count: int, size: int) -> bytes:
    noise = random.Random(count * size)
    return batch_of([(None, noise.randbytes(size)) for _ in range(count)], NOW)


def append(path: Path, data: bytes, total: int) -> float:
    manager, log = fresh(path)
    began = time.process_time()
    for _ in range(total):
        log.append_as_leader(data, 0, NOW)
    took = time.process_time() - began
    manager.close()
    return took


def follow(path: Path, data: bytes, total: int) -> float:
    """Read the log like a follower, a mebibyte at a time."""
    manager, log = fresh(path / "leader")
    for _ in range(total):
        log.append_as_leader(data, 0, NOW)
    follower_manager, follower = fresh(path / "follower")
    took = 0.0
    while follower.end_offset < log.end_offset:
        records = log.read(follower.end_offset, MIB, log.end_offset).records
        began = time.process_time()
        follower.append_as_follower(records)
        took += time.process_time() - began
    manager.close()
    follower_manager.close()
    return took


def read(path: Path, data: bytes, total: int, *, fetch_bytes: int) -> float:
    manager, log = fresh(path)
    for _ in range(total):
        log.append_as_leader(data, 0, NOW)
    offset, took, seen = 0, 0.0, 0
    while offset < log.end_offset:
        began = time.process_time()
        records = log.read(offset, fetch_bytes, log.end_offset).records
        took += time.process_time() - began
        for _, header in walk(records):
            offset, seen = header.next_offset, seen + 1
    assert seen == total
    manager.close()
    return took


def start(path: Path, partitions: int, batches: int) -> dict[str, float]:
    """Seconds until all logs can be used again after a kill, and after an orderly end."""
    rmtree(path, ignore_errors=True)
    manager = manager_at(path)
    data = batch(16, 1024)
    for number in range(partitions):
        log = manager.get_or_create(("bench", number))
        for _ in range(batches):
            log.append_as_leader(data, 0, NOW)
    for directory in manager.directories:
        directory.handles.close()
        directory.files.close()
    told: dict[str, float] = {}
    for how in ("killed", "closed"):
        wall, cpu = time.monotonic(), time.process_time()
        manager = manager_at(path)
        told |= {f"{how} s": time.monotonic() - wall, f"{how} cpu s": time.process_time() - cpu}
        manager.close()
    return told


def run(repeats: int, partitions: int, data: Path) -> None:
    result: Result = {}
    rows: list[dict[str, object]] = []
    for shape, (count, size) in SHAPES.items():
        payload = batch(count, size)
        total = max(200, min(20_000, (64 * MIB) // len(payload)))
        works: dict[str, Callable[[], float]] = {
            "append": partial(append, data, payload, total),
            "follow": partial(follow, data, payload, total),
            "read, 1 MiB": partial(read, data, payload, total, fetch_bytes=MIB),
            "read, one batch": partial(read, data, payload, total, fetch_bytes=1),
        }
        for name, work in works.items():
            seconds = [work() for _ in range(repeats)]
            took = median(seconds)
            result[f"{name}, {shape}"] = {"batches": total, "bytes": total * len(payload), "cpu_s": seconds}
            rows.append(
                {
                    "work": name,
                    "batch": shape,
                    "batches/s": total / took,
                    "records/s": total * count / took,
                    "MB/s": total * len(payload) / took / 1e6,
                }
            )
    publish("broker-log", result, rows)
    batches = 64
    started = start(data, partitions, batches)
    result = {"partitions": partitions, "unflushed_mib": partitions * batches * 16 / 1024, **started}
    publish("broker-log-start", result, [result])
