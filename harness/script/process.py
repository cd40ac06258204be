"""Faults of a process, and of the clocks that it looks at."""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from harness.script.names import LEADER


@frozen
class Crash:
    """The process is gone, and is started again later."""

    at: int
    down_ms: int = 200
    server: int = LEADER
    loss: str = "lose"


@frozen
class CrashAll:
    """Every process is gone at one moment; they come back one after the other."""

    at: int
    down_ms: int = 200
    loss: str = "lose"


@frozen
class CrashIn:
    """A crash right before the server's n-th act from here on: before a word leaves, before a write is done or told.

    With `calls`: before its n-th call that changes its disk.
    """

    at: int
    down_ms: int = 200
    server: int = LEADER
    acts: int = 1
    loss: str = "lose"
    calls: int = 0


@frozen
class When:
    """An aimed fault: the n-th time that a server (`None`: any) comes to this moment, something is done to it.

    It crashes, alone or with everybody; its links break; it is isolated; it or its clock stands still; its disk goes.
    """

    at: int
    for_ms: int = 200
    server: int | None = None
    moment: str = "quorum acked"
    nth: int = 1
    does: str = "crash"
    loss: str = "lose"


@frozen
class Pause:
    """The process stands still, while time goes on and its peers wait."""

    at: int
    for_ms: int = 500
    server: int = LEADER


@frozen
class Restart:
    """The server is told to end, closes its log, and is started again."""

    at: int
    down_ms: int = 100
    server: int = LEADER


@frozen
class RollingRestart:
    """Every server in turn ends and is started again, the next one so long after the last one is back."""

    at: int
    down_ms: int = 100
    wait_ms: int = 200
    manner: str = "orderly"


@frozen
class Setting:
    """A mixed configuration: one server is restarted with another setting, and at the end with its own again."""

    at: int
    for_ms: int = 1_000
    server: int = 1
    knob: str = "tick_ms"
    value: int = 50


# -- clocks --------------------------------------------------------------------------------------------


@frozen
class ClockDrift:
    """The server's monotonic clock, by which its timeouts go, runs at another rate: 50 is half as fast."""

    at: int
    for_ms: int = 1_000
    server: int = LEADER
    rate_percent: int = 50


@frozen
class ClockFreeze:
    """The server's monotonic clock stands still; the process works on. What it missed it never learns."""

    at: int
    for_ms: int = 500
    server: int = LEADER


@frozen
class ClockStep:
    """The server's wall clock is set, and stays like that."""

    at: int
    server: int = LEADER
    by_ms: int = 60_000


@frozen
class ClockSkew:
    """The server's wall clock is wrong by so much, and then right again."""

    at: int
    for_ms: int = 1_000
    server: int = LEADER
    by_ms: int = -60_000


@frozen
class ClockStrobe:
    """The server's wall clock jumps forth and back, again and again."""

    at: int
    for_ms: int = 500
    server: int = LEADER
    by_ms: int = 1_000
    every_ms: int = 20


ProcessFault: TypeAlias = (
    Crash | CrashAll | CrashIn | When | Pause | Restart | RollingRestart | Setting
    | ClockDrift | ClockFreeze | ClockStep | ClockSkew | ClockStrobe
)  # fmt: skip
PROCESS: Final[tuple[type[ProcessFault], ...]] = (
    Crash, CrashAll, CrashIn, When, Pause, Restart, RollingRestart, Setting,
    ClockDrift, ClockFreeze, ClockStep, ClockSkew, ClockStrobe,
)  # fmt: skip
