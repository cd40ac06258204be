"""Ctrl-C comes out of Trio's tasks in a group, however deep. Those who wait for it know it as what it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_bare() -> Iterator[None]:
    """What else the tasks said when they were interrupted, nobody wants to look at."""
    try:
        yield
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None
