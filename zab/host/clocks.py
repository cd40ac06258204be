"""The two clocks of a process, in milliseconds. Below the runtime, time is an argument."""

from __future__ import annotations

import time

import trio

from zab.core.zxid import Millis


def now_ms() -> Millis:
    """Return the time on Trio's clock, which never goes back. A simulation replaces that clock."""
    return int(trio.current_time() * 1000)


def wall_ms() -> Millis:
    """Return the time since 1970. An operator may set this clock while the process runs."""
    return time.time_ns() // 1_000_000
