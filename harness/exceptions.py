"""Helpers for exceptions: a description with the raising function and line, and Ctrl-C from tasks of Trio."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def first_of(error: BaseException) -> BaseException:
    """Return the first exception of a group, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def described(error: BaseException) -> str:
    """Describe an exception, or the first one of a group."""
    error = first_of(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{where}: {error}"


@contextmanager
def interrupts_bare() -> Iterator[None]:
    """Raise a plain `KeyboardInterrupt` if tasks of Trio raise one in a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None
