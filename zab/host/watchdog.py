"""Watch the loops that many clients depend on: report work that holds up a loop, and a loop that has stopped.

Each such loop, for example the member's driver or the group coordinator of a broker, has a `Watchdog`:

    watchdogs = Watchdogs(report)
    driver = watchdogs.add("driver", poke=wakeup.ring)
    with driver.turn(lambda: "3 proposals"):     # one turn of the loop
        ...

`Watchdogs.run` checks every loop once a second, and pokes those that have a `poke` and are not excused. A loop that
completes no turn within `DEAD_S` after a poke is dead: see `problems`. A turn that ends with an exception is not
completed.

A server that owns its process also runs a `LoopMonitor`. Its thread notices when any code holds up the event loop, even
if that code never returns, and names the function.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

import trio
from attrs import define, field, frozen

STALL_S: Final = 0.2
"""The longest turn that is not reported: clients notice a longer pause."""
RECENT_S: Final = 60.0
"""The time for which `warnings` reports a stall."""
POKE_S: Final = 1.0
DEAD_S: Final = 5.0
"""The time after a poke within which a loop must complete a turn; otherwise it is dead."""
BEAT_S: Final = 0.1
REPEAT_S: Final = 10.0
"""The interval at which the monitor repeats its report while one and the same stall lasts."""
FRAMES_MAX: Final = 8

T = TypeVar("T")


@frozen
class Stall:
    """One piece of work that took longer than `STALL_S`. `at`: the time of its end, or of the report if it goes on."""

    loop: str
    seconds: float
    cause: str
    at: float


Report = Callable[[Stall], None]


def never() -> bool:
    return False


@define(eq=False)
class Watchdog:
    """The watchdog of one loop.

    poke     makes the loop turn soon, even if it has nothing to do; None: the loop is timed only
    excused  returns whether the loop may be silent at the moment; then it is not poked
    turns    the number of completed turns
    stalls   the number of reported pieces of work
    last     the last reported piece of work; None before the first
    """

    name: str
    report: Report
    clock: Callable[[], float] = trio.current_time
    poke: Callable[[], object] | None = None
    excused: Callable[[], bool] = never
    turns: int = 0
    stalls: int = 0
    last: Stall | None = None
    _poked: tuple[int, float] | None = field(default=None, init=False)
    """The number of completed turns, and the time, at the last poke; None without one. Any later turn answers it."""

    def turn(self, cause: str | Callable[[], str]) -> Turn:
        """Time one turn, as a context manager. A function as `cause` is only called if the turn exceeds `STALL_S`."""
        return Turn(self, cause)

    def took(self, seconds: float, cause: str | Callable[[], str]) -> None:
        """Report a piece of work if it took longer than `STALL_S`. For hot paths that read the clock themselves."""
        if seconds > STALL_S:
            self.stalls += 1
            self.last = Stall(self.name, seconds, cause if isinstance(cause, str) else cause(), self.clock())
            self.report(self.last)

    def check(self, now: float) -> None:
        """Poke the loop, unless it has no `poke`, is excused, or has not answered an earlier poke."""
        if self.poke is None or self.excused():
            self._poked = None
        elif self._poked is None or self._poked[0] != self.turns:
            self._poked = self.turns, now
            self.poke()

    def problem(self, now: float) -> str | None:
        """Return why the loop counts as dead; None if it does not."""
        if self._poked is None or self._poked[0] != self.turns or now - self._poked[1] < DEAD_S:
            return None
        return f"the loop '{self.name}' has not turned for {now - self._poked[1]:.0f} s: restart this server"

    def warning(self, now: float) -> str | None:
        """Return a sentence about the last stall of the loop; None if there was none in the last `RECENT_S`."""
        last = self.last
        if last is None or now - last.at > RECENT_S:
            return None
        ms, ago_s = round(last.seconds * 1000), round(now - last.at)
        return f"the loop '{self.name}' was held up for {ms} ms, {ago_s} s ago: {last.cause}"


UNWATCHED: Final = Watchdog("unwatched", lambda stall: None, lambda: 0.0)
"""The watchdog of a part without a server around it. Its clock does not advance, so it reports nothing."""


class Turn:
    """One turn of a watched loop, as a context manager."""

    __slots__ = ("_cause", "_started", "_watchdog")

    def __init__(self, watchdog: Watchdog, cause: str | Callable[[], str]) -> None:
        self._watchdog = watchdog
        self._cause = cause

    def __enter__(self) -> None:
        self._started = self._watchdog.clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        watchdog = self._watchdog
        watchdog.took(watchdog.clock() - self._started, self._cause)
        if kind is None:
            watchdog.turns += 1


class TimedSteps(Awaitable[T]):
    """Await a coroutine, and time each of its steps from one wait to the next: only a step holds up other tasks."""

    __slots__ = ("_cause", "_coroutine", "_watchdog")

    def __init__(self, watchdog: Watchdog, cause: str | Callable[[], str], coroutine: Coroutine[Any, Any, T]) -> None:
        self._watchdog = watchdog
        self._cause = cause
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        watchdog, clock, coroutine = self._watchdog, self._watchdog.clock, self._coroutine
        step: Callable[[Any], Any] = coroutine.send
        given: Any = None
        while True:
            started = clock()
            try:
                trap = step(given)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                watchdog.took(clock() - started, self._cause)
            try:
                given, step = (yield trap), coroutine.send
            except BaseException as error:
                given, step = error, coroutine.throw


class Watchdogs:
    """All watchdogs of one server."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._watchdogs: list[Watchdog] = []

    def add(
        self,
        name: str,
        poke: Callable[[], object] | None = None,
        excused: Callable[[], bool] = never,
        clock: Callable[[], float] = trio.current_time,
    ) -> Watchdog:
        watchdog = Watchdog(name, self.report, clock, poke, excused)
        self._watchdogs.append(watchdog)
        return watchdog

    async def run(self) -> None:
        while True:
            self.check()
            await trio.sleep(POKE_S)

    def check(self) -> None:
        """Check every watchdog. A server with a periodic task calls this in that task, instead of `run`."""
        now = trio.current_time()
        for watchdog in self._watchdogs:
            watchdog.check(now)

    @property
    def stalls(self) -> int:
        return sum(watchdog.stalls for watchdog in self._watchdogs)

    def problems(self) -> list[str]:
        """Return a sentence for each dead loop. While there is one, the server is not healthy."""
        now = trio.current_time()
        return [problem for watchdog in self._watchdogs if (problem := watchdog.problem(now)) is not None]

    def warnings(self) -> list[str]:
        """Return a sentence for each loop that stalled in the last `RECENT_S`, about its last stall."""
        now = trio.current_time()
        return [warning for watchdog in self._watchdogs if (warning := watchdog.warning(now)) is not None]


# -- the event loop as a whole -----------------------------------------------------------------------------


class LoopMonitor:
    """Notice from a thread when the event loop is held up. Only for a process that belongs to the server."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._beat = time.perf_counter()
        self._over = threading.Event()
        self._thread_id = 0
        self._cause = ""
        """The cause of a stall that the thread found, such as the function that runs; empty without a stall."""

    async def run(self) -> None:
        self._thread_id = threading.get_ident()
        thread = threading.Thread(target=self._watch, name="loop monitor", daemon=True)
        self._beat = time.perf_counter()
        thread.start()
        try:
            while True:
                await trio.sleep(BEAT_S)
                late = time.perf_counter() - self._beat - BEAT_S
                self._beat += BEAT_S + late
                cause, self._cause = self._cause, ""
                if cause:
                    self._watchdog.took(late, cause)
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        reported_beat = reported_at = 0.0
        cpu, looked = time.process_time(), time.perf_counter()
        while not self._over.wait(BEAT_S):
            now = time.perf_counter()
            used, gone, beat = time.process_time() - cpu, now - looked, self._beat
            cpu, looked = cpu + used, now
            late = now - beat - BEAT_S
            if late < STALL_S or (beat == reported_beat and now - reported_at < REPEAT_S):
                continue
            repeated, reported_beat, reported_at = beat == reported_beat, beat, now
            if gone > BEAT_S + STALL_S and used < gone / 2:
                self._cause = "the process got little or no CPU time: it was stopped, swapped out or starved"
            else:
                self._cause = where(sys._current_frames().get(self._thread_id))
            if repeated or late > REPEAT_S:  # `run` reports a stall at its end, and this one may never end
                self._watchdog.report(Stall(self._watchdog.name, late, f"not over yet: {self._cause}", now))


def where(frame: FrameType | None) -> str:
    """Name the innermost functions of a stack, with file and line."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_MAX:
        code = frame.f_code
        found.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(found) or "an unknown place"
