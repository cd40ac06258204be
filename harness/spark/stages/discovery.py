"""Estimate the number of undiscovered kinds of runs.

The chance that the next run is of a new kind is about the share of runs whose kind occurred once (Good and Turing).
Chao's estimate is a lower bound of the number of kinds. The last tenth of the runs tests the prediction from the rest.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.spark.analysis import POINTS


def kinds(runs: DataFrame) -> DataFrame:
    """Return a row for each kind of run: its first seed, its runs, and its runs in the last tenth."""
    ends = runs.agg(F.min("seed").alias("low"), (F.max("seed") + 1).alias("high"))
    placed = runs.select("seed", "behaviour").crossJoin(F.broadcast(ends))
    late = F.col("seed") >= F.col("high") - (F.col("high") - F.col("low")) / 10
    place = F.floor((F.col("seed") - F.col("low")) * POINTS / (F.col("high") - F.col("low"))).cast("int")
    return placed.groupBy("behaviour").agg(
        F.min("seed").alias("first_seed"),
        F.min(place).alias("place"),
        F.count("*").alias("runs"),
        F.count_if(late).alias("late"),
    )


def curve(kinds: DataFrame) -> DataFrame:
    """Return the number of new kinds in each sixtieth of the campaign."""
    return kinds.groupBy("place").agg(F.count("*").alias("new")).orderBy("place")


def unseen(kinds: DataFrame) -> DataFrame:
    """Return one row: the estimates, the prediction for the last tenth, and its actual value."""
    early = F.col("runs") - F.col("late")
    sums = kinds.agg(
        F.sum("runs").alias("runs"),
        F.count("*").alias("kinds"),
        F.count_if(F.col("runs") == 1).alias("once"),
        F.count_if(F.col("runs") == 2).alias("twice"),
        F.count_if(early == 1).alias("_once"),
        F.sum(early).alias("_early"),
        F.sum("late").alias("_late"),
        F.sum(F.when(early == 0, F.col("late")).otherwise(0)).alias("_surprises"),
    )
    zero = F.lit(0)
    return sums.select(
        "runs",
        "kinds",
        "once",
        "twice",
        (F.col("once") / F.nullif("runs", zero)).alias("chance_of_new"),
        (F.col("kinds") + F.col("once") * (F.col("once") - 1) / (2 * (F.col("twice") + 1))).alias("kinds_at_least"),
        (F.col("_once") / F.nullif("_early", zero)).alias("foretold"),
        (F.col("_surprises") / F.nullif("_late", zero)).alias("came"),
    )
