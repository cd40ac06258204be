"""Progress of commands that may take a long time: a bar on a terminal, once a command has run for two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

DELAY_S: Final = 2.0


@contextmanager
def byte_progress(label: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Yield a function that takes the number of bytes of each step. `total`: None if it is unknown."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (TextColumn(label), BarColumn(), DownloadColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=total)
    shown_from = time.monotonic() + DELAY_S

    def advance(count: int) -> None:
        bar.advance(task, count)
        if time.monotonic() >= shown_from:
            bar.start()  # does nothing if the bar is shown already

    try:
        yield advance
    finally:
        bar.stop()
