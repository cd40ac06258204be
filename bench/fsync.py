"""Measure the time of a small durable append on this disk, the reference of every latency."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import publish, spread

APPEND_BYTES = 200


def fsync_s(directory: Path, count: int = 300, preallocated: bool = True) -> list[float]:
    """Seconds for each of `count` times: append 200 bytes, fdatasync. `preallocated`: as our log does it."""
    path = directory / "fsync-probe"
    taken = []
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        if preallocated:
            os.posix_fallocate(file, 0, (count + 10) * APPEND_BYTES)
            os.fsync(file)
        for number in range(count):
            began = time.perf_counter()
            os.pwrite(file, b"x" * APPEND_BYTES, number * APPEND_BYTES)
            os.fdatasync(file)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(file)
        path.unlink()
    return taken


def run(count: int, data: Path | None) -> None:
    rows = []
    result = {}
    with TemporaryDirectory(dir=data) as directory:
        for name, preallocated in (("growing file", False), ("preallocated", True)):
            values = spread([1000 * each for each in fsync_s(Path(directory), count, preallocated)])
            result[name] = values
            rows.append({"append 200 B + fdatasync": name, **{f"{key} ms": value for key, value in values.items()}})
    publish("fsync", {"ms": result}, rows)
