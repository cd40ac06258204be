"""Analyse a campaign: the stages from its files to its tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.spark.analysis import Analysis, Tables, store
from harness.spark.chance import corrected
from harness.spark.identity import code_hash
from harness.spark.layout import Layout
from harness.spark.schema import EVENTS, HISTORIES, REPEATS, RUNS
from harness.spark.stages import clusters, discovery, odds, recheck, sums, validate
from harness.spark.verdicts import VERBS, as_clients_saw_it, delivered_in_order

SLICED: Final = 8
"""The most groups of failures of which one is shrunk."""
TRIES: Final = 120
NAMED_MAX: Final = 100
"""The most unknown runs or histories that the report names."""

OnStage = Callable[[str], None]
"""A callback with the name of the stage that begins."""


@frozen
class Loaded:
    """The valid rows of a campaign, and the rejected ones."""

    runs: DataFrame
    events: DataFrame
    histories: DataFrame
    repeats: DataFrame
    quarantine: DataFrame


def load(spark: SparkSession, layout: Layout) -> Loaded:
    frames: dict[str, DataFrame] = {}
    rejected: list[DataFrame] = []
    for table in (RUNS, EVENTS, HISTORIES, REPEATS):
        found = validate.readable(table, (layout.table(table.name) / chunk.name for chunk in layout.chunks(table.name)))
        if found.refused:
            rows = [(path, None, reason, None) for path, reason in found.refused]
            rejected.append(spark.createDataFrame(rows, validate.QUARANTINE))
        frames[table.name], bad = validate.validate(validate.load(spark, table, found.paths), table)
        rejected.append(bad)
    runs, twice = validate.once(frames[RUNS.name], RUNS)
    runs = runs.cache()
    _, torn = validate.whole(runs, frames[EVENTS.name], frames[HISTORIES.name])
    torn = torn.cache()
    rejected += [twice, torn]
    events, histories = (
        frames[name].join(F.broadcast(torn.select("seed")), "seed", "left_anti") for name in ("events", "histories")
    )
    return Loaded(runs, events, histories, frames[REPEATS.name], reduce(DataFrame.unionByName, rejected))


def analyze(
    spark: SparkSession, layout: Layout, *, sliced: int = SLICED, on_stage: OnStage = lambda _: None
) -> Analysis:
    began = time.monotonic()
    meta = layout.meta()
    on_stage("validate")
    loaded = load(spark, layout)
    runs, tasks = loaded.runs, max(2, 2 * spark.sparkContext.defaultParallelism)
    quarantine = loaded.quarantine.cache()
    tables: Tables = {
        "quarantine": _rows(quarantine.groupBy("source", "reason").count().orderBy("source", "reason")),
    }
    on_stage("check histories again")
    stored = loaded.events.where(F.col("verb").isin(*VERBS)).select("seed", "number", "server", "verb", "what")
    acts = recheck.recheck(stored, "number", delivered_in_order, tasks=tasks)
    seen = recheck.recheck(loaded.histories, "index", as_clients_saw_it, tasks=tasks)
    verdicts = acts.unionByName(seen).cache()
    tables["verdicts"] = _rows(
        verdicts.groupBy("verdict", "invariant").agg(
            F.count("*").alias("histories"), F.sum("steps").alias("steps"), F.sum("core_seconds").alias("core_seconds")
        )
    )
    tables["unknown"] = _rows(verdicts.where("verdict = 'unknown'").orderBy("seed").limit(NAMED_MAX))
    tables["given_up"] = _rows(sums.given_up(runs, NAMED_MAX))
    on_stage("aggregate")
    tables |= {
        "totals": _rows(sums.totals(runs)),
        "strikes": _rows(sums.strikes(runs)),
        "outages": _rows(sums.outages(runs)),
        "recoveries": _rows(sums.recoveries(runs)),
        "waiting": _rows(sums.waiting(runs)),
        "synchronizations": _rows(sums.synchronizations(runs)),
        "elections": _rows(sums.elections(runs)),
        "messages": _rows(sums.messages(runs)),
        "probes": _rows(sums.probes(runs)),
        "verbs": _rows(sums.verbs(loaded.events)),
        "again": _rows(sums.compared(runs, loaded.repeats).orderBy("seed")),
    }
    kinds = discovery.kinds(runs).cache()
    tables |= {"curve": _rows(discovery.curve(kinds)), "unseen": _rows(discovery.unseen(kinds))}
    on_stage("compare failures")
    tables["odds"] = corrected(_rows(odds.odds(runs)))
    tables["clusters"] = _clusters(runs, meta, sliced, layout.analysis / "diagrams")
    on_stage("write")
    meta |= {"analysed_in_s": round(time.monotonic() - began, 1), "campaign": layout.name}
    made = Analysis(tables, meta)
    quarantine.write.mode("overwrite").parquet(str(layout.analysis / "quarantine"))
    verdicts.write.mode("overwrite").parquet(str(layout.analysis / "verdicts"))
    store(layout.analysis, made)
    return made


def _clusters(runs: DataFrame, meta: dict[str, Any], sliced: int, diagrams: Path) -> list[dict[str, Any]]:
    groups = clusters.groups(runs).cache()
    most = (
        min(sliced, groups.count()) if meta["code"] == code_hash() else 0
    )  # with other code a failure may differ or vanish
    plan = meta["plan"]
    if most:
        slices = clusters.slices(groups, plan["world"], plan["mutant"], most, TRIES, diagrams)
    else:
        slices = groups.sparkSession.createDataFrame([], clusters.SLICES.ddl)
    return _rows(clusters.clusters(groups, slices))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]
