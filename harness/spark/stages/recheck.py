"""Judge stored histories again, each alone, the dear ones spread, and none for longer than it may take.

The cost of a history is guessed from its rows, and the histories are dealt out so that every task gets about as much
to do. A judge that does not come to an end within its budget is asked again with twice as much, when all others are
done. What is undecided after the last round is reported so, with what was spent on it.
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.spark.verdicts import Judge

BUDGET: Final = 100_000
ROUNDS: Final = 6
VERDICTS: Final = (
    "seed bigint, verdict string, promise string, what string, steps bigint, budget bigint, core_seconds double"
)
_SCHEMA: Final = pa.schema(
    [
        ("seed", pa.int64()),
        ("verdict", pa.string()),
        ("promise", pa.string()),
        ("what", pa.string()),
        ("steps", pa.int64()),
        ("budget", pa.int64()),
        ("core_seconds", pa.float64()),
    ]
)


def dealt(costs: list[tuple[int, int]], hands: int) -> dict[int, int]:
    """Which hand each seed goes to: the dearest first, each to whoever has least by then."""
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
    """`rows` have a seed, and `order` is their place in its history. One row of `VERDICTS` for each seed."""
    spark = rows.sparkSession
    open_rows = rows
    parts: list[DataFrame] = []
    for number in range(rounds):
        costs = [(row["seed"], row["count"]) for row in open_rows.groupBy("seed").count().collect()]
        if not costs:
            break
        judged = _round(spark, open_rows, order, judge, budget << number, dealt(costs, tasks), tasks).cache()
        last = number == rounds - 1
        parts.append(judged if last else judged.where("verdict != 'undecided'"))
        undecided = judged.where("verdict = 'undecided'").select("seed")
        open_rows = rows.join(F.broadcast(undecided), "seed", "left_semi")
    return reduce(DataFrame.unionByName, parts) if parts else spark.createDataFrame([], VERDICTS)


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
            said = judge(history, budget)
            made.append(
                {
                    "seed": seed,
                    "verdict": said.verdict,
                    "promise": said.promise,
                    "what": said.what,
                    "steps": said.steps,
                    "budget": budget,
                    "core_seconds": time.process_time() - began,
                }
            )
        yield pa.RecordBatch.from_pylist(made, schema=_SCHEMA)

    return spread.mapInArrow(task, VERDICTS)


def _keys(spark: SparkSession, tasks: int) -> list[int]:
    """For each task a number that Spark's partitioning sends to it, so that two hands never meet in one task."""
    place = F.pmod(F.hash("id"), F.lit(tasks)).alias("place")
    found = (
        spark.range(0, 100 * tasks, 1, 1).select("id", place).groupBy("place").agg(F.min("id").alias("id")).collect()
    )
    keys = {row["place"]: row["id"] for row in found}
    return [keys[place] for place in range(tasks)]
