"""The clocks of a process, in milliseconds unless said otherwise. The core takes the time as an argument instead."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import trio

from zab.core.errors import LocalProtocolError
from zab.core.zxid import Millis


def loop_clock() -> Callable[[], float]:
    """Return the clock of the present loop, in seconds. It is for hot paths: `trio.current_time` looks up the loop."""
    return trio.lowlevel.current_clock().current_time


def now_ms() -> Millis:
    """Return the time on Trio's clock, which never goes back. A simulation replaces that clock."""
    return int(trio.current_time() * 1000)


def check_clock_waits(what: str, instead: str) -> None:
    """Raise `LocalProtocolError` if the time of this loop jumps ahead while a disk or a socket is busy.

    That is a `trio.testing.MockClock` with `autojump_threshold=0`. With a larger threshold, the caller has allowed for
    such delays. `what` is the call, and `instead` the remedy.
    """
    testing = sys.modules.get("trio.testing")  # not imported: without it there is no MockClock
    clock = trio.lowlevel.current_clock()
    if testing is not None and isinstance(clock, testing.MockClock) and clock.autojump_threshold == 0:
        raise LocalProtocolError(
            f"{what} needs a clock that waits for real disks and sockets; a MockClock with autojump_threshold=0, like "
            f"pytest-trio's fixture autojump_clock, jumps past every timeout meanwhile. {instead}"
        )


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
