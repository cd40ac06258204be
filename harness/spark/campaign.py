"""A stored campaign: its chunks, the processes that run them, its progress, and its early end."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import field, frozen

from harness.run.plan import Plan
from harness.run.runner import spread as run_in_processes
from harness.spark.chunk import COUNTED, Done, Work, finish, is_repeated
from harness.spark.identity import campaign_name, code_hash, config_hash, settings
from harness.spark.layout import Chunk, Layout, left

CHUNK: Final = 50
"""The seeds of a task. A killed task loses at most this number of runs, which run again."""
LOOK_S: Final = 0.5

Finish = Callable[[Work, Chunk], Done]
Seen = Callable[[Done], bool]
"""A callback with the progress. It returns False to stop the campaign."""


class Spread(Protocol):
    def __call__(self, work: Work, chunks: Sequence[Chunk], on: Callable[[], bool]) -> None:
        """Finish all chunks. `on` is called regularly; after it returns False, no chunk is started."""


class Stopped(RuntimeError):
    """A task failed, so the campaign ended. Finished chunks remain stored."""


@frozen
class Campaign:
    plan: Plan
    layout: Layout
    sample: int = 100
    size: int = CHUNK
    stop_after: int = 0
    work: Work = field(init=False)

    @work.default
    def _make_work(self) -> Work:
        return Work(self.plan, self.layout, code_hash(), self.sample, self.stop_after)

    @classmethod
    def at(cls, folder: Path, plan: Plan, *, sample: int = 100, size: int = CHUNK, stop_after: int = 0) -> Campaign:
        made = cls(plan, Layout.of(folder.resolve(), campaign_name(plan)), sample, size, stop_after)
        made.layout.begin(
            {
                "plan": settings(plan),
                "code": code_hash(),
                "config": config_hash(plan),
                "python": platform.python_version(),
            }
        )
        return made

    def done(self) -> Done:
        """Return the numbers of all finished chunks, also of earlier and of other processes."""
        return Watch(self.layout, self.plan).look()

    def left(self) -> list[Chunk]:
        """Return the chunks to do: first those that never ran, then repeats."""
        plan, layout = self.plan, self.layout
        chunks = left(layout.chunks("runs"), plan.base, plan.runs, self.size)
        again = left(layout.chunks("repeats"), plan.base, plan.runs, 20 * self.size, again=True)
        return chunks + [chunk for chunk in again if any(map(is_repeated, range(chunk.first, chunk.end)))]

    def run(self, spread: Spread, seen: Seen = lambda _: True) -> Done:
        """Run until all chunks are done, or `seen` returns False. Raise `Stopped` if a task fails."""
        chunks = self.left()
        watch = Watch(self.layout, self.plan)
        if chunks:
            spread(self.work, chunks, lambda: seen(watch.look()))
        done = watch.look()
        seen(done)
        return done


class Watch:
    """The progress of a campaign, read from its files, so it includes the work of other processes."""

    def __init__(self, layout: Layout, plan: Plan) -> None:
        self._layout = layout
        self._first, self._end = plan.base, plan.base + plan.runs
        self._known: set[str] = set()
        self._done = Done()

    def look(self) -> Done:
        for chunk in self._layout.chunks("runs"):
            inside = self._first < chunk.end and chunk.first < self._end
            if inside and chunk.name not in self._known:
                self._known.add(chunk.name)
                try:
                    metadata = pq.read_schema(self._layout.table("runs") / chunk.name).metadata or {}
                except (OSError, pa.ArrowInvalid):
                    continue  # damaged since; `analyze` reports it
                runs = min(chunk.end, self._end) - max(chunk.first, self._first)
                invalid, unknown, errors, stored, seconds = (metadata.get(word.encode(), b"0") for word in COUNTED)
                self._done += Done(runs, int(invalid), int(unknown), int(errors), int(stored), float(seconds))
        return self._done


# -- the processes -------------------------------------------------------------------------------------


def in_processes(jobs: int, finish: Finish = finish) -> Spread:
    """Use processes of this machine, without a JVM: for small campaigns. The stored rows are the same."""

    def spread(work: Work, chunks: Sequence[Chunk], on: Callable[[], bool]) -> None:
        if not on():
            return
        with closing(run_in_processes(partial(finish, work), chunks, jobs)) as results:
            try:
                for _ in results:
                    if not on():
                        return
            except Exception as error:
                raise Stopped(f"{type(error).__name__}: {error}") from error

    return spread


def in_spark(spark: Any, finish: Finish = finish) -> Spread:
    """Use one task of Spark for each chunk. All executors must see the directory under the same path."""

    def spread(work: Work, chunks: Sequence[Chunk], on: Callable[[], bool]) -> None:
        chunks = tuple(chunks)

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    done = finish(work, chunks[number])
                    yield pa.RecordBatch.from_pydict({"runs": [done.runs], "core_seconds": [done.core_seconds]})

        failed: list[Exception] = []

        def job() -> None:
            context.setJobGroup("campaign", work.layout.name, interruptOnCancel=True)
            try:
                tasks = spark.range(0, len(chunks), 1, len(chunks))
                tasks.mapInArrow(task, "runs bigint, core_seconds double").collect()
            except Exception as error:
                failed.append(error)

        context = spark.sparkContext
        thread = threading.Thread(target=job, name="campaign", daemon=True)
        thread.start()
        cancelled = False
        try:
            while thread.is_alive():
                if not on() and not cancelled:
                    cancelled = True
                    context.cancelJobGroup("campaign")
                thread.join(LOOK_S)
        except BaseException:
            with suppress(Exception):  # the JVM may have received the signal, too
                context.cancelJobGroup("campaign")
            raise
        if failed and not cancelled:
            raise Stopped(reason(failed[0])) from failed[0]

    return spread


def reason(error: BaseException) -> str:
    """Return the line of Spark's long error message that has the cause of a failed task."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith(("harness.", "OSError", "MemoryError", "pyarrow.lib.")) or "No space left" in line:
            return line
    for line in lines:
        if "Error" in line or "exited unexpectedly" in line:
            return line
    return lines[0] if lines else type(error).__name__
