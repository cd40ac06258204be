"""Measure the analysis of stored histories and its growth: real runs, stored repeatedly as different ones.

What a size is stored in, and what Spark puts aside while it works, is gone again before the next size begins, and may
never take more of the disk than 20 GB.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.footprint import measured
from bench.report import Result, publish
from harness.run.plan import Plan
from harness.spark.campaign import Campaign, in_processes
from harness.spark.layout import Chunk, Layout, appearing
from harness.spark.schema import EVENTS, HISTORIES, RUNS

GOAL: Final = {"events": 10_000_000, "wall s": 300, "cores": 2, "rss MiB": 8 << 10}
PATTERN: Final = 40
"""The number of real runs; all others are copies of them."""
FILE: Final = 250_000
"""About so many rows stand in a file."""
DISK_MAX: Final = 20 * 10**9
TOLD_EVERY_S: Final = 10


def run(sizes: Sequence[int], master: str, memory: str, data: Path) -> bool:
    print(f"recording {PATTERN} runs", flush=True)
    real = Campaign.at(data / "real", Plan(PATTERN, voters=(5,), ops=200), sample=1)
    real.run(in_processes(1))
    rows = []
    for wanted in sizes:
        folder = data / f"{wanted}-events"
        rmtree(folder, ignore_errors=True)
        room = Room(data)
        try:
            stored = again(real.layout, Campaign.at(folder, real.plan).layout, wanted, room)
            rows.append(_analysed(folder, stored, master, memory, data, room))
        finally:
            rmtree(folder, ignore_errors=True)
            rmtree(data / "spark", ignore_errors=True)
    result: Result = {"master": master, "memory": memory, "goal": GOAL, "rows": rows}
    publish("pipeline", result, rows)
    large = [row for row in rows if row["events"] >= GOAL["events"]]
    held = all(row["wall s"] <= GOAL["wall s"] and row["largest memory MiB"] <= GOAL["rss MiB"] for row in large)
    if large:
        print(
            f"{GOAL['events']:,} events within {GOAL['wall s']} s on {GOAL['cores']} cores and"
            f" {GOAL['rss MiB'] >> 10} GiB: {'met' if held else 'MISSED'}"
        )
    return held


def _analysed(folder: Path, stored: int, master: str, memory: str, data: Path, room: Room) -> dict[str, float]:
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    print(f"analysing {stored:,} events in {size / (1 << 20):,.0f} MiB", flush=True)
    told = time.monotonic()

    def look(seconds: float, rss_mib: float) -> None:
        nonlocal told
        if time.monotonic() >= told + TOLD_EVERY_S:
            told = time.monotonic()
            print(f"  for {seconds:.0f} s, in {rss_mib:,.0f} MiB of memory; {room.check():,} MB of disk", flush=True)

    log = data / "log"
    aside = data / "spark"
    aside.mkdir(exist_ok=True)
    command = [
        *("env", f"SPARK_LOCAL_DIRS={aside.resolve()}"),
        *(sys.executable, "-m", "harness", "analyze", str(folder), "--master", master, "--memory", memory),
    ]
    took = measured(command, log, look)
    if took.code:
        raise RuntimeError(f"the analysis of {stored:,} events ended with {took.code}:\n{log.read_text()[-2_000:]}")
    return {
        "events": stored,
        "stored MiB": size / (1 << 20),
        "wall s": took.wall_s,
        "cpu s": took.cpu_s,
        "largest memory MiB": took.rss_mib,
        "processes": took.processes,
        "events per wall s": stored / took.wall_s,
    }


class Room:
    """The disk space that was used since the creation of this object, by any process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = disk_usage(folder).free

    def check(self) -> int:
        """Return the used MB; raise if they exceed the limit."""
        free = disk_usage(self._folder).free
        taken = self._free - free
        if taken > DISK_MAX or free < DISK_MAX // 20:
            raise RuntimeError(
                f"{taken // 10**6:,} MB of the disk of {self._folder} have been taken since this size was begun, and"
                f" {free // 10**6:,} MB are left: at most {DISK_MAX // 10**6:,} may be, and {DISK_MAX // 20 // 10**6:,}"
                " must be left"
            )
        return max(0, taken) // 10**6


def again(real: Layout, made: Layout, wanted: int, room: Room) -> int:
    tables: dict[str, Any] = {
        table.name: pa.concat_tables(
            [pq.read_table(real.table(table.name) / each.name) for each in real.chunks("runs")]
        )
        for table in (RUNS, EVENTS, HISTORIES)
    }
    whole = tables[EVENTS.name].num_rows
    turns = max(1, FILE // whole)
    seed = stored = 0
    while stored < wanted:
        copies = min(turns, -(-(wanted - stored) // whole))
        chunk = Chunk(seed, seed + copies * PATTERN)
        for table in (EVENTS, HISTORIES, RUNS):
            schema = table.arrow()
            with (
                appearing(made.table(table.name) / chunk.name) as draft,
                pq.ParquetWriter(draft, schema, compression="zstd") as writer,
            ):
                for copy in range(copies):
                    rows = tables[table.name]
                    moved = pc.add(rows["seed"], seed + copy * PATTERN)
                    writer.write_table(rows.set_column(0, rows.schema.field("seed"), moved).cast(schema))
        stored += copies * whole
        seed = chunk.end
        taken = room.check()
        if seed // (turns * PATTERN) % 8 == 1:
            print(f"  stored {stored:,} of {wanted:,} events; {taken:,} MB of disk", flush=True)
    return stored
