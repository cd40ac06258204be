"""The odds of a failure with a fault, over the odds without it.

Half a run is added to each of the four counts (Haldane), so that a fault in every failure has a number, too. The
interval is the usual one at 95 % for a single pair; `harness.spark.chance` corrects for the number of pairs.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.spark.chance import Z


def odds(runs: DataFrame) -> DataFrame:
    struck = F.array_distinct(F.transform("strikes", lambda each: each["kind"]))
    flat = runs.select("seed", "invariant", struck.alias("kinds"))
    each = flat.select("seed", "invariant", F.explode("kinds").alias("kind"))
    total = flat.agg(F.count("*").alias("all"))
    failed = flat.where("invariant IS NOT NULL").groupBy("invariant").agg(F.count("*").alias("failed"))
    met = each.groupBy("kind").agg(F.count("*").alias("met"))
    both = each.where("invariant IS NOT NULL").groupBy("kind", "invariant").agg(F.count("*").alias("both"))
    table = (
        failed.crossJoin(met)
        .crossJoin(total)
        .join(both, ["kind", "invariant"], "left")
        .withColumn("both", F.coalesce("both", F.lit(0)))
        .withColumn("a", F.col("both") + 0.5)
        .withColumn("b", F.col("met") - F.col("both") + 0.5)
        .withColumn("c", F.col("failed") - F.col("both") + 0.5)
        .withColumn("d", F.col("all") - F.col("met") - F.col("failed") + F.col("both") + 0.5)
    )
    ratio = F.log(F.col("a") * F.col("d") / (F.col("b") * F.col("c")))
    error = Z * F.sqrt(1 / F.col("a") + 1 / F.col("b") + 1 / F.col("c") + 1 / F.col("d"))
    return table.select(
        "invariant",
        "kind",
        F.col("both").alias("failed_with"),
        (F.col("failed") - F.col("both")).alias("failed_without"),
        F.exp(ratio).alias("odds_ratio"),
        F.exp(ratio - error).alias("low"),
        F.exp(ratio + error).alias("high"),
    ).orderBy("invariant", F.desc("odds_ratio"), "kind")
