"""Runs a function on Trio's virtual clock, as a test of an application does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
from trio.testing import MockClock

T = TypeVar("T")


def on_virtual_time(main: Callable[[], Awaitable[T]]) -> T:
    return trio.run(main, clock=MockClock(autojump_threshold=0))
