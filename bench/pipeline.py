"""How long the analysis of stored histories takes, and how that grows: real runs, stored again and again as others.

python -m bench.pipeline --events 1000000 DIR        # then: zab-harness analyze DIR
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.many import Plan
from harness.spark.campaign import Campaign, in_processes
from harness.spark.layout import Chunk, Layout, appearing
from harness.spark.schema import EVENTS, HISTORIES, RUNS

PATTERN: Final = 40
"""So many runs are real; all others are these, again."""
FILE: Final = 250_000
"""About so many rows stand in a file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--events", type=int, default=1_000_000)
    arguments = parser.parse_args()
    plan = Plan(PATTERN, voters=(5,), ops=200)
    with tempfile.TemporaryDirectory() as folder:
        real = Campaign.at(Path(folder), plan, sample=1)
        real.run(in_processes(1))
        made = Campaign.at(arguments.folder, plan)
        events = again(real.layout, made.layout, arguments.events)
    print(f"{events:,} events in {made.layout.root}")


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


if __name__ == "__main__":
    main()
