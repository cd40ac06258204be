"""Sums over runs: faults, outages, recoveries, elections, messages."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.spark.analysis import RECOVERED
from harness.spark.schema import OUTCOMES

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_EXACT: Final = 10_000


def quantiles(name: str, prefix: str = "") -> list[Column]:
    made = [F.percentile_approx(name, share, _EXACT).alias(prefix + word) for word, share in QUANTILES.items()]
    return [*made, F.max(name).alias(f"{prefix}max")]


def totals(runs: DataFrame) -> DataFrame:
    """Return a row for each world, machine and number of voters."""
    sums = ("events", "simulated_ms", "committed", "acknowledged", "elections", "messages", "operations")
    return (
        runs.groupBy("world", "machine", "voters")
        .agg(
            F.count("*").alias("runs"),
            *[F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in OUTCOMES],
            *[F.sum(name).alias(name) for name in sums],
            F.sum("core_seconds").alias("core_seconds"),
            (60 * F.count("*") / F.sum("core_seconds")).alias("runs_per_core_minute"),
            (F.sum("simulated_ms") / 1_000 / F.sum("core_seconds")).alias("simulated_per_core_second"),
        )
        .orderBy("world", "machine", "voters")
    )


def strikes(runs: DataFrame) -> DataFrame:
    """Return the numbers of faults and of their runs, by kind, phase and outcome."""
    each = runs.select("seed", "outcome", F.explode("strikes").alias("strike"))
    return (
        each.groupBy(F.col("strike.kind").alias("kind"), F.col("strike.phase").alias("phase"), "outcome")
        .agg(F.sum("strike.times").alias("strikes"), F.countDistinct("seed").alias("runs"))
        .orderBy("kind", "phase", "outcome")
    )


def outages(runs: DataFrame) -> DataFrame:
    """Return the quantiles of outages by the kind of the last fault before them."""
    each = runs.select(F.explode("outages").alias("outage")).select("outage.*")
    return (
        each.groupBy(F.col("after").alias("kind"))
        .agg(F.count("*").alias("outages"), *quantiles("took_ms"))
        .orderBy("kind")
    )


def recoveries(runs: DataFrame) -> DataFrame:
    """Return the quantiles of recoveries by the kind of the fault. Faults that interrupted no service have none."""
    each = runs.select(F.explode("recoveries").alias("recovery")).select("recovery.*")
    return (
        each.groupBy("kind")
        .agg(
            F.count("*").alias("faults"),
            *[
                column
                for what in RECOVERED
                for column in (F.count(f"{what}_ms").alias(f"{what}_times"), *quantiles(f"{what}_ms", f"{what}_"))
            ],
        )
        .orderBy("kind")
    )


def given_up(runs: DataFrame, most: int) -> DataFrame:
    """Return unknown runs."""
    return runs.where("outcome = 'unknown'").select("seed", "voters", "what").orderBy("seed").limit(most)


def _added(array: str, name: str) -> Column:
    return F.aggregate(array, F.lit(0).cast("bigint"), lambda total, each: total + each[name])


def waiting(runs: DataFrame) -> DataFrame:
    """Return the share of time without service, and the time of the final recovery, by number of voters."""
    valid = runs.where("outcome = 'valid'")
    out = valid.select("voters", "recovered_ms", "simulated_ms", _added("outages", "took_ms").alias("out_ms"))
    return (
        out.groupBy("voters")
        .agg(
            F.count("*").alias("runs"),
            (F.sum("out_ms") / F.sum("simulated_ms")).alias("share_unavailable"),
            *quantiles("out_ms"),
            *quantiles("recovered_ms", "recovered_"),
        )
        .orderBy("voters")
    )


def situations(runs: DataFrame) -> DataFrame:
    return runs.select("seed", "voters", F.explode("counts").alias("name", "times"))


def synchronizations(runs: DataFrame) -> DataFrame:
    """Return the number of synchronizations of each form, by number of voters."""
    return (
        situations(runs)
        .where("name LIKE 'sync %'")
        .groupBy("voters", F.substring("name", 6, 100).alias("form"))
        .agg(F.sum("times").alias("times"))
        .orderBy("voters", "form")
    )


def probes(runs: DataFrame) -> DataFrame:
    """Return the number of occurrences, the runs and the first seed of each situation."""
    return (
        situations(runs)
        .groupBy("name")
        .agg(F.sum("times").alias("times"), F.count("*").alias("runs"), F.min("seed").alias("first_seed"))
        .orderBy("name")
    )


def elections(runs: DataFrame) -> DataFrame:
    """Return the average elections of runs with each kind of fault, and the elections per fault in these runs."""
    kinds = F.array_distinct(F.transform("strikes", lambda each: each["kind"]))
    each = runs.select(F.explode(kinds).alias("kind"), "elections", _added("strikes", "times").alias("struck"))
    return (
        each.groupBy("kind")
        .agg(
            F.count("*").alias("runs"),
            F.avg("elections").alias("elections"),
            (F.sum("elections") / F.sum("struck")).alias("elections_per_fault"),
        )
        .orderBy("kind")
    )


def messages(runs: DataFrame) -> DataFrame:
    """Return messages between servers for each transaction, and for each operation of valid runs.

    An invalid run ends early, without the rest of its operations.
    """
    zero, valid = F.lit(0), F.col("outcome") == "valid"
    return (
        runs.groupBy("voters")
        .agg(
            F.sum("messages").alias("messages"),
            (F.sum(F.when(valid, F.col("messages"))) / F.nullif(F.sum(F.when(valid, F.col("operations"))), zero)).alias(
                "per_operation"
            ),
            (F.sum("messages") / F.nullif(F.sum("committed"), zero)).alias("per_transaction"),
        )
        .orderBy("voters")
    )


def verbs(events: DataFrame) -> DataFrame:
    """Return the number of stored events with each verb, and the approximate number of their runs."""
    return (
        events.groupBy("verb")
        .agg(F.count("*").alias("acts"), F.approx_count_distinct("seed").alias("runs"))
        .orderBy(F.desc("acts"), "verb")
    )


def compared(runs: DataFrame, repeats: DataFrame) -> DataFrame:
    """Return a row for each run that another task repeated. `same` is true if result and trace are equal."""
    other = repeats.select("seed", F.col("result_hash").alias("result_again"), F.col("trace_hash").alias("trace_again"))
    same = F.col("result_hash").eqNullSafe(F.col("result_again")) & F.col("trace_hash").eqNullSafe(F.col("trace_again"))
    return runs.join(other, "seed").select("seed", "voters", same.alias("same"))
