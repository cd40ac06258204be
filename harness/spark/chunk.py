"""A task: run a few seeds and store their rows, in an executor of Spark or in a process of this machine."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve, fields, frozen

from harness.faults import Script
from harness.outcome import Outcome
from harness.run.plan import Plan, world_for
from harness.run.runner import timed, with_bug
from harness.spark.identity import code_hash, share
from harness.spark.layout import Chunk, Layout, appearing
from harness.spark.rows import Row, act_rows, error_row, history_rows, run_row
from harness.spark.schema import EVENTS, HISTORIES, REPEATS, RUNS, Table
from harness.worlds import World

REPEATED: Final = 100
"""One in this number of seeds is run twice, by two tasks, and the results are compared."""


class OtherCode(RuntimeError):
    """The code of this process differs from the code that began the campaign."""


@frozen
class Work:
    """The input of a task besides its seeds."""

    plan: Plan
    layout: Layout
    code: str
    """The hash of the code of the campaign."""
    sample: int = 100
    """All events of one in this number of valid runs are stored; 0: of none."""
    stop_after: int = 0
    """A task ends after this number of failures and stores the seeds so far; 0: never."""


@frozen
class Done:
    """The numbers of one or more chunks."""

    runs: int = 0
    invalid: int = 0
    unknown: int = 0
    errors: int = 0
    """Runs in which the harness itself failed."""
    stored: int = 0
    core_seconds: float = 0.0

    def __add__(self, other: Done) -> Done:
        return Done(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Done)))


COUNTED: Final = ("invalid", "unknown", "errors", "stored", "core_seconds")
"""The numbers in the metadata of a file of runs, from which the progress is read without its rows."""


def is_repeated(seed: int) -> bool:
    return share(seed, "repeat", REPEATED) == 0


def finish(work: Work, chunk: Chunk) -> Done:
    """Run the chunk and store it."""
    if code_hash() != work.code:
        raise OtherCode(f"the hash of the code here is {code_hash()}, but that of the campaign is {work.code}")
    with with_bug(work.plan.mutant):
        return _repeat(work, chunk) if chunk.again else _first(work, chunk)


def _first(work: Work, chunk: Chunk) -> Done:
    layout = work.layout
    rows: list[Row] = []
    failed = 0
    with (
        _storing(EVENTS, layout.table("events") / chunk.name) as events,
        _storing(HISTORIES, layout.table("histories") / chunk.name) as histories,
    ):
        for seed in range(chunk.first, chunk.end):
            row, outcome = run_seed(work, seed)
            rows.append(row)
            if outcome is not None and outcome.trace is not None:
                row["stored"] += events.write(act_rows(seed, outcome.trace))
                if outcome.history is not None:
                    row["stored"] += histories.write(history_rows(seed, outcome.history))
            failed += row["outcome"] in ("invalid", "error")
            if work.stop_after and failed >= work.stop_after:
                break
    outcomes = Counter(row["outcome"] for row in rows)
    done = Done(
        len(rows),
        outcomes["invalid"],
        outcomes["unknown"],
        outcomes["error"],
        sum(row["stored"] for row in rows),
        sum(row["core_seconds"] for row in rows),
    )
    # The runs are stored last. Events without their run are written again; a run always has its events.
    counted = {name: str(getattr(done, name)) for name in COUNTED}
    ended = evolve(chunk, end=chunk.first + len(rows))
    with _storing(RUNS, layout.table("runs") / ended.name, **counted) as runs:
        runs.write(iter(rows))
    gc.collect()  # the collector is off during the runs
    return done


def _repeat(work: Work, chunk: Chunk) -> Done:
    rows = [run_seed(work, seed)[0] for seed in range(chunk.first, chunk.end) if is_repeated(seed)]
    names = [column.name for column in REPEATS.columns]
    with _storing(REPEATS, work.layout.table("repeats") / chunk.name) as repeats:
        repeats.write({name: row[name] for name in names} for row in rows)
    gc.collect()
    return Done(core_seconds=sum(row["core_seconds"] for row in rows))


# -- one run -------------------------------------------------------------------------------------------


def run_seed(work: Work, seed: int) -> tuple[Row, Outcome | None]:
    """Return the row, and the outcome with its trace if it is to be stored. A failure runs again to get a trace."""
    plan = work.plan
    where = world_for(plan.machine, plan.world)
    script = where.playable(plan.script(seed - plan.base)).script
    sampled = work.sample > 0 and share(seed, "sample", work.sample) == 0
    outcome, row = _timed(where, script, trace=sampled or is_repeated(seed))
    if outcome is None:
        return row, None
    if not outcome.valid and outcome.trace is None:
        outcome, again = _timed(where, script, trace=True)
        row["trace_hash"] = again["trace_hash"]
        if outcome is None or again["result_hash"] != row["result_hash"]:
            row |= {
                "outcome": "error",
                "what": f"the run is not deterministic: first {row['what']!r}, then {again['what']!r}",
            }
            return row, None
    return row, outcome if sampled or not outcome.valid else None


def _timed(where: World, script: Script, *, trace: bool) -> tuple[Outcome | None, Row]:
    began = time.process_time()
    try:
        outcome, core_seconds = timed(where.run, script, trace=trace)
    except Exception as error:  # the other runs of the chunk continue
        return None, error_row(script, error, world=where.name, core_seconds=time.process_time() - began)
    return outcome, run_row(outcome, world=where.name, core_seconds=core_seconds)


# -- storing -------------------------------------------------------------------------------------------


class _Rows:
    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, rows: Iterator[Row]) -> int:
        batch = pa.RecordBatch.from_pylist(list(rows), schema=self._schema)
        self._writer.write_batch(batch)
        return int(batch.num_rows)


@contextmanager
def _storing(table: Table, path: Path, **metadata: str) -> Iterator[_Rows]:
    schema = table.arrow(**metadata)
    with appearing(path) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        yield _Rows(writer, schema)
