"""Clusters of failures, by the invariant and by the items that are needed to violate it.

Failures of one invariant whose messages have the same shape are a group. One failure of each group is shrunk; the kinds
of faults and operations that remain are its slice. Groups of one invariant with one slice are a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.faults import Script
from harness.outcome import Outcome
from harness.report.diagram import page
from harness.run.plan import world_for
from harness.run.replay_line import replay_line
from harness.run.runner import timed, with_bug
from harness.scripts import loads, to_json
from harness.shrink import same_invariant, shrink
from harness.spark.layout import appearing
from harness.spark.schema import Small, Table, columns_of
from harness.spark.shapes import shape
from harness.watchdog import SECONDS

SEEDS: Final = 5
"""The most seeds of a cluster that are named."""
NOTHING: Final = "no fault and no operation: servers that only start"


@frozen
class SliceRow:
    seed: int
    slice: str
    small: str
    tries: Small


SLICES: Final = Table("slices", columns_of(SliceRow))


def groups(runs: DataFrame) -> DataFrame:
    """Return a row for each group; errors of the harness are grouped likewise."""
    invariant = F.coalesce("invariant", F.col("outcome"))
    failed = runs.where("outcome IN ('invalid', 'error')").withColumn("invariant", invariant)
    return failed.groupBy("invariant", F.udf(shape, useArrow=False)("what").alias("says")).agg(
        F.count("*").alias("failures"),
        F.min("seed").alias("seed"),
        F.slice(F.sort_array(F.collect_set("seed")), 1, SEEDS).alias("seeds"),
        F.min_by("what", "seed").alias("what"),
        F.min_by("voters", "seed").alias("voters"),
        F.min_by("script", "seed").alias("script"),
    )


def slices(
    groups: DataFrame, where: str, mutant: str | None, most: int, tries: int, diagrams: Path | None = None
) -> DataFrame:
    """Shrink one failure of each of the `most` greatest groups, and draw the shrunk run into `diagrams`."""
    chosen = (
        groups.where("invariant != 'error'")
        .withColumn("_nth", F.row_number().over(Window.partitionBy(F.lit(0)).orderBy(F.desc("failures"), "seed")))
        .where(F.col("_nth") <= most)
        .select("seed", "invariant", "script")
    )

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist([smaller(row, where, mutant, tries, diagrams)], schema=SLICES.arrow())

    return chosen.repartition(max(1, most), "seed").mapInArrow(task, SLICES.ddl)


def smaller(row: dict[str, Any], where: str, mutant: str | None, tries: int, diagrams: Path | None) -> dict[str, Any]:
    script = loads(row["script"])
    there = world_for(script.machine, where)

    def run(script: Script) -> Outcome:
        return timed(there.run, script, seconds=SECONDS)[0]

    with with_bug(mutant):
        found = shrink(script, same_invariant(run, row["invariant"]), runs_max=tries)
        if diagrams is not None and there.recorded:
            _draw(diagrams / f"{row['seed']}.html", there.run(found.script, trace=True), where, mutant)
    needed = sorted({type(item).__name__ for item in (*found.script.faults, *found.script.ops)})
    return {
        "seed": row["seed"],
        "slice": ", ".join(needed) or NOTHING,
        "small": json.dumps(to_json(found.script)),
        "tries": found.runs,
    }


def _draw(path: Path, outcome: Outcome, where: str, mutant: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = replay_line(outcome.script, world=where, mutant=mutant, beside=path.with_suffix(".json"))
    with appearing(path) as draft:
        draft.write_text(page(outcome, line))


def clusters(groups: DataFrame, slices: DataFrame) -> DataFrame:
    known = groups.join(slices, "seed", "left")
    key = F.coalesce("slice", F.concat(F.lit("not shrunk: "), "says"))
    return (
        known.withColumn("slice", key)
        .groupBy("invariant", "slice")
        .agg(
            F.sum("failures").alias("failures"),
            F.slice(F.sort_array(F.flatten(F.collect_list("seeds"))), 1, SEEDS).alias("seeds"),
            F.min("seed").alias("seed"),
            F.min_by("what", "seed").alias("what"),
            F.min_by("voters", "seed").alias("voters"),
            F.min_by("small", "seed").alias("small"),
            F.sort_array(F.collect_set("says")).alias("says"),
        )
        .orderBy(F.desc("failures"), "invariant", "slice")
    )
