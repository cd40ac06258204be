"""Determinism: runs that two tasks did must be equal, to the last act."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def compared(runs: DataFrame, repeats: DataFrame) -> DataFrame:
    """One row for each run that was done twice: is it the same?"""
    other = repeats.select("seed", F.col("result_hash").alias("result_again"), F.col("trace_hash").alias("trace_again"))
    same = F.col("result_hash").eqNullSafe(F.col("result_again")) & F.col("trace_hash").eqNullSafe(F.col("trace_again"))
    return runs.join(other, "seed").select("seed", "voters", same.alias("same"))
