"""Count the work of a process, unaffected by a busy machine: passes of the loop, steps of tasks, calls."""

from __future__ import annotations

import sys
from types import FrameType

import trio

Counts = dict[str, int]


class Counting(trio.abc.Instrument):
    """Counters from `begin` to `end`. Calls are counted only on request, because that slows everything down."""

    def __init__(self) -> None:
        self._calls = self._builtin = self._passes = self._steps = 0

    def begin(self, calls: bool) -> None:
        self._calls = self._builtin = self._passes = self._steps = 0
        trio.lowlevel.add_instrument(self)
        if calls:
            sys.setprofile(self._profiled)

    def end(self) -> Counts:
        sys.setprofile(None)
        trio.lowlevel.remove_instrument(self)
        return {
            "passes of the loop": self._passes,
            "steps of tasks": self._steps,
            "calls": self._calls,
            "calls of built-ins": self._builtin,
        }

    def _profiled(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._calls += 1
        elif event == "c_call":
            self._builtin += 1

    def after_io_wait(self, timeout: float) -> None:
        self._passes += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps += 1
