"""Check stored histories again, each with a budget of steps.

The cost of a history is estimated from its rows, and all tasks get about the same cost. A history that is unknown
within its budget is checked again with twice the budget when all others are done. If it stays unknown after the last
round, it is reported so, with the steps spent.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.spark.schema import Table, columns_of
from harness.spark.verdicts import Judge

BUDGET: Final = 100_000
ROUNDS: Final = 6


@frozen
class VerdictRow:
    seed: int
    verdict: str
    invariant: str | None
    what: str
    steps: int
    budget: int
    core_seconds: float


VERDICTS: Final = Table("verdicts", columns_of(VerdictRow))


def dealt(costs: list[tuple[int, int]], hands: int) -> dict[int, int]:
    """Return the task of each seed: the most expensive first, each to the task with the least cost."""
    heap = [(0, hand) for hand in range(hands)]
    made: dict[int, int] = {}
    for seed, cost in sorted(costs, key=lambda each: (-each[1], each[0])):
        has, hand = heapq.heappop(heap)
        made[seed] = hand
        heapq.heappush(heap, (has + cost, hand))
    return made


def recheck(
    rows: DataFrame, order: str, judge: Judge, *, budget: int = BUDGET, rounds: int = ROUNDS, tasks: int = 8
) -> DataFrame:
    """Return a row of `VERDICTS` for each seed. The column `order` of `rows` is their order within a history."""
    spark = rows.sparkSession
    open_rows = rows
    parts: list[DataFrame] = []
    for number in range(rounds):
        costs = [(row["seed"], row["count"]) for row in open_rows.groupBy("seed").count().collect()]
        if not costs:
            break
        judged = _round(spark, open_rows, order, judge, budget << number, dealt(costs, tasks), tasks).cache()
        last = number == rounds - 1
        parts.append(judged if last else judged.where("verdict != 'unknown'"))
        unknown = judged.where("verdict = 'unknown'").select("seed")
        open_rows = rows.join(F.broadcast(unknown), "seed", "left_semi")
    return reduce(DataFrame.unionByName, parts) if parts else spark.createDataFrame([], VERDICTS.ddl)


def _round(
    spark: SparkSession, rows: DataFrame, order: str, judge: Judge, budget: int, hands: dict[int, int], tasks: int
) -> DataFrame:
    keys = _keys(spark, tasks)
    places = spark.createDataFrame([(seed, keys[hand]) for seed, hand in hands.items()], "seed bigint, hand bigint")
    spread = rows.join(F.broadcast(places), "seed").repartition(tasks, "hand").sortWithinPartitions("seed", order)

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        flat = (row for batch in batches for row in batch.to_pylist())
        made = []
        for seed, history in groupby(flat, key=itemgetter("seed")):
            began = time.process_time()
            found = judge(history, budget)
            made.append(
                {
                    "seed": seed,
                    "verdict": found.verdict,
                    "invariant": found.invariant,
                    "what": found.what,
                    "steps": found.steps,
                    "budget": budget,
                    "core_seconds": time.process_time() - began,
                }
            )
        yield pa.RecordBatch.from_pylist(made, schema=VERDICTS.arrow())

    return spread.mapInArrow(task, VERDICTS.ddl)


def _keys(spark: SparkSession, tasks: int) -> list[int]:
    """Return for each task a number that Spark's partitioning assigns to it, so that no task gets two shares."""
    place = F.pmod(F.hash("id"), F.lit(tasks)).alias("place")
    found = (
        spark.range(0, 100 * tasks, 1, 1).select("id", place).groupBy("place").agg(F.min("id").alias("id")).collect()
    )
    keys = {row["place"]: row["id"] for row in found}
    return [keys[place] for place in range(tasks)]
