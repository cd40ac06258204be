"""How long the analysis of stored histories takes, and how that grows: real runs, stored again and again as others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.footprint import measured
from bench.report import Result, publish
from harness.many import Plan
from harness.spark.campaign import Campaign, in_processes
from harness.spark.layout import Chunk, Layout, appearing
from harness.spark.schema import EVENTS, HISTORIES, RUNS

GOAL: Final = {"events": 10_000_000, "wall s": 300, "cores": 2, "rss MiB": 8 << 10}
PATTERN: Final = 40
"""So many runs are real; all others are these, again."""
FILE: Final = 250_000
"""About so many rows stand in a file."""


def run(sizes: Sequence[int], master: str, memory: str, data: Path) -> bool:
    real = Campaign.at(data / "real", Plan(PATTERN, voters=(5,), ops=200), sample=1)
    real.run(in_processes(1))
    rows = []
    for wanted in sizes:
        folder = data / f"{wanted}-events"
        stored = again(real.layout, Campaign.at(folder, real.plan).layout, wanted)
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        log = data / "log"
        command = [sys.executable, "-m", "harness", "analyze", str(folder), "--master", master, "--memory", memory]
        took = measured(command, log)
        if took.code:
            raise RuntimeError(f"the analysis of {stored:,} events ended with {took.code}:\n{log.read_text()[-2_000:]}")
        rows.append(
            {
                "events": stored,
                "stored MiB": size / (1 << 20),
                "wall s": took.wall_s,
                "cpu s": took.cpu_s,
                "largest memory MiB": took.rss_mib,
                "processes": took.processes,
                "events per wall s": stored / took.wall_s,
            }
        )
        rmtree(folder)
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


def again(real: Layout, made: Layout, wanted: int) -> int:
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
    return stored
