"""Validate rows before anything is counted. Bad rows go to the quarantine, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from harness.spark.schema import EVENTS, HISTORIES, OUTCOMES, REPEATS, RUNS, VERSION, Table

QUARANTINE: Final = "source string, seed bigint, reason string, row string"
"""The columns of rejected rows. `source` is a table, or an unreadable file."""

MOST: Final = 1 << 40
"""The limit of counts of a run. The sum over eight million runs still fits into 64 bits."""
_COUNTED: Final = "at_ms, events, simulated_ms, committed, acknowledged, elections, messages, operations, stored"
_RECOVERY: Final = "each.at_ms, each.leader_ms, each.write_ms, each.sessions_ms"
_OUTCOMES: Final = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
_RULES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    RUNS.name: (
        (f"outcome NOT IN ({_OUTCOMES})", "unknown outcome"),
        ("outcome = 'invalid' AND invariant IS NULL", "invalid, but no invariant is named"),
        ("outcome = 'valid' AND invariant IS NOT NULL", "valid, but an invariant is named"),
        ("outcome != 'valid' AND script IS NULL", "failed, but its script is missing"),
        ("voters < 1 OR observers < 0", "impossible number of servers"),
        (f"least({_COUNTED}) < 0", "negative count"),
        (f"greatest({_COUNTED}, recovered_ms) > {MOST}", "impossible count"),
        (f"exists(map_values(counts), each -> each > {MOST})", "impossible count"),
        (f"NOT (core_seconds >= 0 AND core_seconds < {MOST})", "impossible processor time"),
        (f"exists(outages, each -> greatest(each.took_ms, each.at_ms) > {MOST})", "impossible time of an outage"),
        (f"exists(recoveries, each -> greatest({_RECOVERY}) > {MOST})", "impossible time of a recovery"),
        (f"exists(strikes, each -> each.times > {MOST})", "impossible count"),
        ("exists(outages, each -> each.took_ms < 0 OR each.at_ms < 0)", "an outage with a negative duration or time"),
        (f"exists(recoveries, each -> least({_RECOVERY}) < 0)", "a recovery with a negative duration or time"),
        ("exists(strikes, each -> each.times < 1)", "a fault that occurred less than once"),
    ),
    EVENTS.name: (("number < 0", "negative number"), ("at_us < 0", "negative time")),
    HISTORIES.name: (("index < -1", "impossible index"),),
    REPEATS.name: (),
}


@frozen
class Readable:
    """The readable files of a table, and the others with the reasons."""

    paths: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def readable(table: Table, paths: Iterable[Path]) -> Readable:
    """Check the footer of each file: it shows whether the file is complete, and its version."""
    good: list[str] = []
    refused: list[tuple[str, str]] = []
    for path in paths:
        try:
            schema = pq.read_schema(path)
            metadata = schema.metadata or {}
        except Exception as error:
            refused.append((str(path), f"cannot be read: {str(error).splitlines()[0]}"))
            continue
        version, name = (metadata.get(key, b"?").decode(errors="replace") for key in (b"version", b"table"))
        if version != str(VERSION):
            refused.append((str(path), f"version {version}, expected {VERSION}"))
        elif name != table.name:
            refused.append((str(path), f"the file has table {name}, expected {table.name}"))
        else:
            wrong = _wrong_type(schema, table)
            if wrong is None:
                good.append(str(path))
            else:
                refused.append((str(path), wrong))
    return Readable(tuple(good), tuple(refused))


def _wrong_type(schema: Any, table: Table) -> str | None:
    """Describe a column of a wrong type, which makes the file unreadable. A missing column only makes its rows bad."""
    for field in table.arrow():
        place = schema.get_field_index(field.name)
        if place >= 0 and not _alike(schema.field(place).type, field.type):
            return f"column {field.name} is {schema.field(place).type}, expected {field.type}"
    return None


def _alike(one: Any, other: Any) -> bool:
    """Compare types without the names that a file gives to the parts of a list."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _alike(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _alike(one.key_type, other.key_type) and _alike(one.item_type, other.item_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {each.name: each.type for each in one}
        return all(each.name not in types or _alike(types[each.name], each.type) for each in other)
    return bool(one == other)


def load(spark: SparkSession, table: Table, paths: Iterable[str]) -> DataFrame:
    paths = list(paths)
    return spark.read.schema(table.ddl).parquet(*paths) if paths else spark.createDataFrame([], table.ddl)


def validate(frame: DataFrame, table: Table) -> tuple[DataFrame, DataFrame]:
    """Return the valid rows, and the others as `QUARANTINE`."""
    reason = F.lit(None).cast("string")
    for rule, words in reversed(_RULES[table.name]):
        reason = F.when(F.expr(rule), F.lit(words)).otherwise(reason)
    for column in table.columns:
        if column.needed:
            reason = F.when(F.col(column.name).isNull(), F.lit(f"{column.name} is missing")).otherwise(reason)
    judged = frame.withColumn("reason", reason)
    return judged.where("reason IS NULL").drop("reason"), put_aside(judged.where("reason IS NOT NULL"), table.name)


def put_aside(judged: DataFrame, source: str) -> DataFrame:
    row = F.to_json(F.struct(*[name for name in judged.columns if name != "reason"]))
    return judged.select(F.lit(source).alias("source"), "seed", "reason", row.alias("row"))


def once(runs: DataFrame, table: Table) -> tuple[DataFrame, DataFrame]:
    """Keep the first row of each seed; the others go to the quarantine."""
    order = Window.partitionBy("seed").orderBy("result_hash", "core_seconds")
    counted = runs.withColumn("_nth", F.row_number().over(order))
    others = counted.where("_nth > 1").drop("_nth").withColumn("reason", F.lit("the seed has two rows"))
    return counted.where("_nth = 1").drop("_nth"), put_aside(others, table.name)


def whole(runs: DataFrame, *kept: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the seeds with all their stored rows, and rejections of the others, which cannot be checked again."""
    counts = None
    for frame in kept:
        part = frame.groupBy("seed").count()
        counts = part if counts is None else counts.unionByName(part)
    assert counts is not None
    found = counts.groupBy("seed").agg(F.sum("count").alias("found"))
    both = runs.where("stored > 0").select("seed", "stored").join(found, "seed", "full_outer")
    there = F.coalesce("found", F.lit(0))
    judged = both.select(
        "seed",
        F.when(F.col("stored").isNull(), F.lit("rows of a run that is not in the table of runs"))
        .when(there != F.col("stored"), F.concat_ws(" ", there, F.lit("of"), "stored", F.lit("rows are stored")))
        .alias("reason"),
    )
    aside = judged.where("reason IS NOT NULL").select(
        F.lit("history").alias("source"), "seed", "reason", F.lit(None).cast("string").alias("row")
    )
    return judged.where("reason IS NULL").select("seed"), aside
