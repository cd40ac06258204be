"""One task: run a few seeds, judge them, and put their rows on the disk. What it has finished stays finished.

The same function is called by Spark's executors and by a pool of processes, and it needs neither.
"""

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
from attrs import evolve, frozen

from harness.faults import Script
from harness.outcome import Outcome
from harness.run.plan import Plan
from harness.run.runner import timed, with_bug
from harness.run.worlds import world_for
from harness.spark.identity import code_hash, share
from harness.spark.layout import Chunk, Layout, appearing
from harness.spark.rows import Row, act_rows, error_row, history_rows, run_row
from harness.spark.schema import EVENTS, HISTORIES, REPEATS, RUNS, Table
from harness.worlds import World

REPEATED: Final = 100
"""One in so many seeds is run twice, by two tasks, and compared."""


class OtherCode(RuntimeError):
    """This process would run other code than the one that began the campaign."""


@frozen
class Work:
    """All that a task must know besides its seeds."""

    plan: Plan
    layout: Layout
    code: str
    """The hash of the code that is to run."""
    sample: int = 100
    """Of one in so many runs that hold all acts are stored, too; 0: of none."""
    stop_after: int = 0
    """A task ends after this number of failures and stores the seeds so far; 0: never."""


@frozen
class Done:
    """What came of a chunk, for whoever shows how far it is. The rows are on the disk."""

    runs: int = 0
    violated: int = 0
    undecided: int = 0
    errors: int = 0
    """Of the harness itself."""
    stored: int = 0
    core_seconds: float = 0.0

    def __add__(self, other: Done) -> Done:
        return Done(
            self.runs + other.runs,
            self.violated + other.violated,
            self.undecided + other.undecided,
            self.errors + other.errors,
            self.stored + other.stored,
            self.core_seconds + other.core_seconds,
        )


COUNTED: Final = ("violated", "undecided", "errors", "stored", "core_seconds")
"""What a file of runs says of itself, so that nobody has to read its rows to know how far a campaign is."""


def is_repeated(seed: int) -> bool:
    return share(seed, "repeat", REPEATED) == 0


def finish(work: Work, chunk: Chunk) -> Done:
    """Run the chunk and store it."""
    if code_hash() != work.code:
        raise OtherCode(f"the sources here have the hash {code_hash()}, and the campaign was begun with {work.code}")
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
            failed += row["outcome"] in ("violated", "error")
            if work.stop_after and failed >= work.stop_after:
                break
    came = Counter(row["outcome"] for row in rows)
    done = Done(
        len(rows),
        came["violated"],
        came["undecided"],
        came["error"],
        sum(row["stored"] for row in rows),
        sum(row["core_seconds"] for row in rows),
    )
    # What is stored of a run may be there without the run, and is then written again; never the other way round.
    counted = {name: str(getattr(done, name)) for name in COUNTED}
    ended = evolve(chunk, end=chunk.first + len(rows))
    with _storing(RUNS, layout.table("runs") / ended.name, **counted) as runs:
        runs.write(iter(rows))
    gc.collect()  # the collector slept during the runs
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
    """Its row; and with a trace what became of it, if that is to be stored. A failure is run once more to have one."""
    plan = work.plan
    where = world_for(plan.machine, plan.world)
    script = where.playable(plan.script(seed - plan.base)).script
    sampled = work.sample > 0 and share(seed, "sample", work.sample) == 0
    outcome, row = _timed(where, script, trace=sampled or is_repeated(seed))
    if outcome is None:
        return row, None
    if not outcome.held and outcome.trace is None:
        outcome, again = _timed(where, script, trace=True)
        row["trace_hash"] = again["trace_hash"]
        if outcome is None or again["result_hash"] != row["result_hash"]:
            row |= {"outcome": "error", "what": f"not the same when it was run again: {row['what']}; {again['what']}"}
            return row, None
    return row, outcome if sampled or not outcome.held else None


def _timed(where: World, script: Script, *, trace: bool) -> tuple[Outcome | None, Row]:
    began = time.process_time()
    try:
        outcome, core_seconds = timed(where.run, script, trace=trace)
    except Exception as error:  # the other runs of the chunk go on
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
