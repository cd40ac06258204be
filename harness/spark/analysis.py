"""The result of an analysis: small tables by name, as they are stored, shown and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import field, frozen

from harness.run.plan import Plan
from harness.spark.layout import Layout, appearing, read
from harness.spark.schema import EVENTS, HISTORIES, RUNS, VERSION

Row = dict[str, Any]
Tables = dict[str, list[Row]]

POINTS: Final = 60
"""The number of points of the discovery curve."""


RECOVERED: Final = {"leader": "a quorum serves", "write": "a write is acknowledged", "sessions": "sessions are back"}
"""The parts of the service that faults interrupt, and the words for their recovery."""

MANY: Final = 3_000_000


def is_small(layout: Layout) -> bool:
    """Return True if few rows are stored, so that Spark need not be tuned for speed."""
    rows = 0
    for table in (EVENTS.name, HISTORIES.name, RUNS.name):
        for chunk in layout.chunks(table):
            try:
                rows += pq.read_metadata(layout.table(table) / chunk.name).num_rows
            except (OSError, pa.ArrowInvalid):  # the analysis reports the damage
                continue
    return rows <= MANY


@frozen
class Analysis:
    tables: Tables
    meta: Row = field(factory=dict)

    @property
    def invalid(self) -> bool:
        """True if a run violated an invariant, failed, or differed when it ran or was checked again."""
        return bool(
            self.count("invalid")
            or self.count("error")
            or any(not row["same"] for row in self.tables["again"])
            or any(row["verdict"] == "invalid" for row in self.tables["verdicts"])
        )

    @property
    def unknown(self) -> int:
        """The number of unknown runs and unknown stored histories. They do not count as valid."""
        histories = sum(row["histories"] for row in self.tables["verdicts"] if row["verdict"] == "unknown")
        return self.count("unknown") + int(histories)

    @property
    def valid(self) -> bool:
        return not self.invalid and not self.unknown

    def count(self, column: str) -> int:
        return int(sum(row[column] for row in self.tables["totals"]))

    @property
    def plan(self) -> Plan:
        made = dict(self.meta["plan"])
        made["voters"] = tuple(made["voters"])
        return Plan(self.count("runs"), **made)


def store(folder: Path, made: Analysis) -> None:
    """Write each table as one Parquet file, and all of them as JSON."""
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    for name, rows in made.tables.items():
        path = tables / f"{name}.parquet"
        path.unlink(missing_ok=True)
        if rows:
            with appearing(path) as draft:
                pq.write_table(pa.Table.from_pylist(rows), draft)
    with appearing(folder / "analysis.json") as draft:
        draft.write_text(json.dumps({"version": VERSION, "meta": made.meta, "tables": made.tables}) + "\n")


def stored(layout: Layout) -> Analysis:
    found = read(layout.analysis / "analysis.json", "`zab-harness analyze` writes it")
    return Analysis(found["tables"], found["meta"])
