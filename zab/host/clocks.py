"""The clocks of a process, in milliseconds unless said otherwise. The core takes the time as an argument instead."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from zab.core.zxid import Millis


def loop_clock() -> Callable[[], float]:
    """Return the clock of the present loop, in seconds. It is for hot paths: `trio.current_time` looks up the loop."""
    return trio.lowlevel.current_clock().current_time


def now_ms() -> Millis:
    """Return the time on Trio's clock, which never goes back. A simulation replaces that clock."""
    return int(trio.current_time() * 1000)


def wall_ms() -> Millis:
    """Return the time since 1970. This clock may be set while the process runs, also to an earlier time."""
    return time.time_ns() // 1_000_000


def steady_wall_clock() -> Callable[[], Millis]:
    """Return a clock that starts at the wall time and follows Trio's clock from then on.

    Use it for times that are shown or sent to others and that also decide timeouts. With the wall clock, setting the
    system's clock could end sessions early.
    """
    origin = time.time() - trio.current_time()
    return lambda: int((origin + trio.current_time()) * 1000)
