"""Measure the cost of a hostile client for a server, and the delay of other clients.

Two gauges, neither of which reads a wall clock:

    steps(call)   executed lines and calls into C, counted in this process: the same on every run and machine
    Meter         CPU time of a server's process, in units of a control request that the same server has just served

A `Meter` also runs a bystander: a second client that sends one small request after the other for as long as the
hostile requests take. The server's CPU time between such a request and its reply is a stall.

    with Meter(process.pid, log, control=lambda: client.ping(1_000), bystander=other.ping) as meter:
        cost = meter.measure(lambda: hostile.send(frame))
        cost.check(work_max=20, stall_max=10)
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import FrameType, TracebackType
from typing import Any, Final

from attrs import frozen

_CONTROLS: Final = 7
_BYSTANDERS: Final = 50
_PAUSE_S: Final = 0.002
_QUIET_S: Final = 0.05
_QUIET_SHARE: Final = 0.4
"""A server is at rest if it computes for less than this part of the time. The bystander alone costs less."""
_PATIENCE_S: Final = 120
_CPU_CLOCK: Final = 2


def cpu_ns(pid: int) -> int:
    """The CPU time of a process with all its threads, those that have ended among them.

    `clock_getcpuclockid(3)` makes the number of the clock from the process id in this way.
    """
    return time.clock_gettime_ns((~pid << 3) | _CPU_CLOCK)


class TooMuchWork(BaseException):
    """The call took more steps than it may. No `except Exception` of the code under test swallows this."""


def steps(call: Callable[[], object], steps_max: int | None = None) -> int:
    """Count the lines and the C calls that `call` executes; raise `TooMuchWork` beyond `steps_max`."""
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if steps_max is not None and count > steps_max:
                raise TooMuchWork(f"more than {steps_max} steps, at {frame.f_code.co_qualname}")
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    traced, profiled = sys.gettrace(), sys.getprofile()
    sys.settrace(on_line)
    sys.setprofile(on_call)
    try:
        call()
    finally:
        sys.settrace(traced)
        sys.setprofile(profiled)
    return count


@frozen
class Cost:
    """CPU time of the server in units of the control request.

    work     all of it, from the first byte until the server is at rest again, without that for the bystander
    stall    the largest part of it between a request of the bystander and its reply
    answers  replies that the bystander received meanwhile
    """

    work: float
    stall: float
    answers: int

    def check(self, what: object = "", *, work_max: float | None = None, stall_max: float | None = None) -> None:
        text = f"{what}: {self.work:.1f} controls of work, a stall of {self.stall:.1f}, {self.answers} answers"
        assert work_max is None or self.work <= work_max, f"{text}; at most {work_max} of work"
        assert stall_max is None or self.stall <= stall_max, f"{text}; a stall of at most {stall_max}"


class Meter:
    """Compare requests with a control request that one server serves.

    pid        of the server, which runs in a process of its own
    log        where its stderr goes
    control    send a fixed amount of honest work and wait until it is done: some milliseconds of CPU
    bystander  send one small request over a connection of its own and wait for the reply; called in a thread

    Calls block, so call them in a plain thread, not in a Trio task.
    """

    def __init__(self, pid: int, log: Path, control: Callable[[], object], bystander: Callable[[], object]) -> None:
        self._pid = pid
        self._log = log
        self._control = control
        self._bystander = bystander
        self.control_ns = 0
        """CPU time of one control request: the unit of every `Cost`."""
        self._bystander_ns = 0
        """CPU time of one request of the bystander, with no other client."""
        self._logged = 0

    def __enter__(self) -> Meter:
        self._logged = self._log.stat().st_size
        self._control()  # what is computed once is not part of it
        found = []
        for _ in range(_CONTROLS):
            before = cpu_ns(self._pid)
            self._control()
            self._rest()
            found.append(cpu_ns(self._pid) - before)
        self.control_ns = round(median(found))
        before = cpu_ns(self._pid)
        for _ in range(_BYSTANDERS):
            self._bystander()
        self._bystander_ns = (cpu_ns(self._pid) - before) // _BYSTANDERS
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.check_alive()

    def measure(self, hostile: Callable[[], object]) -> Cost:
        """Run `hostile` beside the bystander, until the server is at rest again. Errors of both are raised."""
        stop, gaps, errors = threading.Event(), [], []

        def serve_bystander() -> None:
            try:
                while not stop.is_set():
                    sent = cpu_ns(self._pid)
                    self._bystander()
                    gaps.append(cpu_ns(self._pid) - sent)
                    time.sleep(_PAUSE_S)
            except Exception as error:
                errors.append(error)

        before = cpu_ns(self._pid)
        thread = threading.Thread(target=serve_bystander)
        thread.start()
        try:
            hostile()
            self._rest()
        finally:
            stop.set()
            thread.join(_PATIENCE_S)
        # A slow disk makes the call last longer, and gives the bystander more replies, but makes no work.
        work = cpu_ns(self._pid) - before - len(gaps) * self._bystander_ns
        assert not thread.is_alive(), "the bystander waits for a reply"
        if errors:
            raise AssertionError("the bystander was not served") from errors[0]
        return Cost(work / self.control_ns, max(gaps) / self.control_ns, len(gaps))

    def check_alive(self) -> None:
        """The process runs, serves the bystander, and has logged no traceback since the last check."""
        cpu_ns(self._pid)
        self._bystander()
        logged = self._log.read_bytes()[self._logged :]
        self._logged += len(logged)
        log = logged.decode(errors="replace")
        assert "Traceback (most recent call last)" not in log, log[-4000:]

    def _rest(self) -> None:
        """Wait until the server has computed little for a while."""
        ends = time.monotonic() + _PATIENCE_S
        while True:
            before, since = cpu_ns(self._pid), time.monotonic()
            time.sleep(_QUIET_S)
            busy_ns = cpu_ns(self._pid) - before
            if busy_ns < _QUIET_SHARE * 1e9 * (time.monotonic() - since):
                return
            assert time.monotonic() < ends, "the server does not come to rest"
