"""The directory of a campaign: the places of its files, and how each file appears atomically.

    DIR/campaign=<world>-<settings>-<code>/
        meta.json                             plan, hashes and versions of the campaign
        events/seeds-<from>-<to>.parquet      acts of servers, written before the file of runs
        histories/seeds-<from>-<to>.parquet   histories of clients, written before the file of runs
        runs/seeds-<from>-<to>.parquet        a row for each run; this file marks its seeds as done
        repeats/seeds-<from>-<to>.parquet     the few of these seeds that were run a second time
        analysis/                             the results of `analyze`, which can be computed again

A file gets its name when it is complete and synced. Its name contains its seeds, so a restart finds the remaining seeds
from names alone. The name of an unfinished file begins with a dot; it is never read.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from harness.spark.schema import VERSION

PREFIX: Final = "campaign="
_NAME: Final = re.compile(r"seeds-(\d+)-(\d+)\.parquet")


class LayoutError(ValueError):
    """The folder has no campaign or analysis, or one of another version. The message names the place."""


@frozen
class Chunk:
    """The seeds of one task and of one file: from `first` up to, not including, `end`."""

    first: int
    end: int
    again: bool = False
    """True for repeats. They run only the few seeds whose results are compared."""

    @property
    def name(self) -> str:
        return f"seeds-{self.first:012}-{self.end:012}.parquet"

    @property
    def table(self) -> str:
        return "repeats" if self.again else "runs"


@frozen
class Layout:
    """The directory of one campaign."""

    root: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Layout:
        return cls(folder / f"{PREFIX}{name}")

    @property
    def name(self) -> str:
        return self.root.name.removeprefix(PREFIX)

    @property
    def analysis(self) -> Path:
        return self.root / "analysis"

    def table(self, name: str) -> Path:
        return self.root / name

    def chunks(self, table: str) -> Iterator[Chunk]:
        """Return the finished chunks of a table."""
        folder = self.table(table)
        if folder.is_dir():
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                found = _NAME.fullmatch(entry.name)
                if found:
                    yield Chunk(int(found[1]), int(found[2]), table == "repeats")

    # -- meta.json -------------------------------------------------------------------------------------

    def begin(self, meta: dict[str, object]) -> None:
        """Create the directory if it does not exist; keep everything in it."""
        for name in ("runs", "events", "histories", "repeats"):
            self.table(name).mkdir(parents=True, exist_ok=True)
        path = self.root / "meta.json"
        if not path.exists():
            text = json.dumps({"version": VERSION, **meta}, indent=1, sort_keys=True)
            with appearing(path) as draft:
                draft.write_text(text + "\n")

    def meta(self) -> dict[str, Any]:
        return read(self.root / "meta.json", "the folder is no campaign")


def read(path: Path, if_missing: str) -> dict[str, Any]:
    """Read a JSON file of this version."""
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise LayoutError(f"{path}: {error.strerror}; {if_missing}") from error
    except ValueError as error:
        raise LayoutError(f"{path}: no JSON: {error}") from error
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION:
        raise LayoutError(f"{path}: version: expected {VERSION}, not {version!r}")
    made: dict[str, Any] = found
    return made


def find(folder: Path, name: str | None = None) -> Layout:
    """Return the campaign in this folder, or this folder itself. `name` chooses among several."""
    if folder.name.startswith(PREFIX):
        return Layout(folder)
    if not folder.is_dir():
        raise LayoutError(f"{folder}: this directory does not exist")
    there = sorted(path for path in folder.iterdir() if path.name.startswith(PREFIX))
    if name is not None:
        there = [path for path in there if path.name.removeprefix(PREFIX).startswith(name)]
    if not there:
        raise LayoutError(f"{folder}: this folder has no campaign{'' if name is None else f' {name}'}")
    if len(there) > 1:
        names = ", ".join(path.name.removeprefix(PREFIX) for path in there)
        raise LayoutError(f"{folder}: choose one of several campaigns with --campaign: {names}")
    return Layout(there[0])


# -- chunks to do --------------------------------------------------------------------------------------


def left(done: Iterable[Chunk], base: int, runs: int, size: int, *, again: bool = False) -> list[Chunk]:
    """Return the chunks of the seeds that are not done. They begin at multiples of `size` if they can."""
    covered = sorted((chunk.first, chunk.end) for chunk in done)
    chunks: list[Chunk] = []
    at, end = base, base + runs
    for first, past in [*covered, (end, end)]:
        while at < min(first, end):
            stop = min((at // size + 1) * size, first, end)
            chunks.append(Chunk(at, stop, again))
            at = stop
        at = max(at, past)
    return chunks


# -- atomic files ---------------------------------------------------------------------------------------


@contextmanager
def appearing(path: Path, sync: Callable[[int], None] = os.fsync) -> Iterator[Path]:
    """Yield a draft beside `path`. If the block succeeds, sync it and rename it to `path`.

    Several processes may write the file at the same time: each has its own draft, and all have the same content.
    """
    begun = f".{path.name}.{socket.gethostname()}."
    draft = path.parent / f"{begun}{os.getpid()}"
    _forget(path.parent, begun)
    try:
        yield draft
        descriptor = os.open(draft, os.O_RDONLY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        sync(folder)
    finally:
        os.close(folder)


def _forget(folder: Path, begun: str) -> None:
    """Remove drafts of processes of this machine that were killed."""
    for left_over in folder.glob(f"{begun}*"):
        number = left_over.name.removeprefix(begun)
        if number.isdecimal() and int(number) != os.getpid() and not _runs(int(number)):
            left_over.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True
