"""Standard output and standard error, if writing to them fails: a full disk, a closed pipe, a terminal that is gone.

The result of a command is on standard output: if that cannot be written, the command ends with a status of its own.
Messages on standard error only accompany the result: those that cannot be written are dropped. A server has no result,
so `announce` lets it serve on.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from zab.cli.kit.log_options import log_event
from zab.runtime.block_nursery import sole_error

NO_OUTPUT: Final = os.EX_IOERR
"""The exit status if standard output cannot be written: 74, as in sysexits.h."""
OUTPUT_CLOSED: Final = 141
"""The exit status if the reader of standard output has closed the pipe: 128 + SIGPIPE, as shells report it."""


class OutputFailed(Exception):
    """Standard output cannot be written. Not an `OSError`, which a command would report as a failure of its own."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}")
        self.status = OUTPUT_CLOSED if isinstance(error, BrokenPipeError) else NO_OUTPUT


class _Output(io.FileIO):
    """Raises `OutputFailed` for the first write that fails, and drops what follows."""

    failed = False

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]  # typeshed: never None
        size = memoryview(data).nbytes
        if self.failed or not size:  # click writes nothing, to find out whether a stream takes bytes
            return size
        try:
            return super().write(data)
        except OSError as error:
            self.failed = True
            raise OutputFailed(error) from error


class _Messages(io.FileIO):
    """Drops each message that cannot be written."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def announce(line: str) -> None:
    """Print a line about a running server, and log a warning if it cannot be printed: the server serves on."""
    try:
        print(line, flush=True)
    except OutputFailed as error:
        log_event("not_printed", logging.WARNING, why=str(error), line=line)


def with_standard_streams(run: Callable[[], int]) -> int:
    """Run a command and return its exit status. If its output cannot be written, report that in one line.

    Report nothing if the reader has closed the pipe, as `head` does.
    """
    before = sys.stdout, sys.stderr
    sys.stdout = _guarded(sys.stdout, sys.__stdout__, _Output)
    sys.stderr = _guarded(sys.stderr, sys.__stderr__, _Messages)
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except (OutputFailed, BaseExceptionGroup) as error:
        sole = sole_error(error)
        if not isinstance(sole, OutputFailed):
            raise
        if sole.status == NO_OUTPUT:
            print(sole, file=sys.stderr)
        return sole.status
    finally:
        sys.stdout, sys.stderr = before


def _guarded(stream: TextIO | None, original: TextIO | None, kind: type[io.FileIO]) -> TextIO:
    """Return a stream that writes to the same descriptor with `kind`, or to nowhere if the descriptor is closed.

    A stream that this process has replaced, as tests do, stays.
    """
    if stream is None:
        return open(os.devnull, "w")
    if stream is not original or not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = kind(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # python -u writes through
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
