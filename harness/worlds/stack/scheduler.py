"""Makes Trio's order of tasks a function of a seed, freezes the tasks of paused processes, and keeps virtual time.

All need private parts of Trio, which are used in this module only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final

import trio
import trio.testing
from trio._core import _run

_SWITCH: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_CHANCE: Final = "_r"
OWNER: Final[ContextVar[object]] = ContextVar("OWNER")
"""The process that a task belongs to. Tasks inherit it from the task that starts them."""


class UnsupportedTrio(Exception):
    """This version of Trio has another run loop, so that no run would be repeatable."""


@contextmanager
def ordered_by(seed: str) -> Iterator[None]:
    """Make the order of tasks of a `trio.run` in this block depend only on `seed` and on what the tasks do."""
    inside: Any = _run
    chance = getattr(inside, _CHANCE, None)
    switch = getattr(inside, _SWITCH, None)
    if not isinstance(chance, random.Random) or not isinstance(switch, bool):
        raise UnsupportedTrio(f"trio has no {_CHANCE} or {_SWITCH}: adapt this module to its new run loop")
    before = chance.getstate()
    chance.seed(seed)
    setattr(inside, _SWITCH, True)
    try:
        yield
    finally:
        setattr(inside, _SWITCH, switch)
        chance.setstate(before)


def virtual_clock() -> trio.testing.MockClock:
    """Return Trio's mock clock that jumps when every task waits. It never reads the real clock, which saves time."""
    clock: Any = trio.testing.MockClock(autojump_threshold=0)
    inside: Any = _run

    def jump() -> None:
        wait_s = inside.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline() - clock._virtual_base
        if 0 < wait_s < inf:
            clock._virtual_base += wait_s

    clock.current_time = lambda: clock._virtual_base
    clock._autojump = jump
    return clock  # type: ignore[no-any-return]


class TaskFreezer(trio.abc.Instrument):
    """Keeps the tasks of paused processes from running until the processes resume.

    Time goes on meanwhile, as for a stopped process. When it resumes, its timers are overdue, and the order of overdue
    timers and of data that waits in its sockets is not determined.
    """

    def __init__(self) -> None:
        self._frozen: dict[object, list[trio.lowlevel.Task]] = {}

    def freeze(self, process: object) -> None:
        """Freeze a process at any point: from the next turn of each of its tasks on."""
        if not self._frozen:
            trio.lowlevel.add_instrument(self)
        ready = _ready()
        mine = [task for task in ready if task.context.get(OWNER) is process]
        for task in mine:
            ready.remove(task)
        self._frozen[process] = mine

    def thaw(self, process: object) -> None:
        held = self._frozen.pop(process, None)
        if held is not None:
            _ready().extend(held)
            if not self._frozen:
                trio.lowlevel.remove_instrument(self)

    def thaw_all(self) -> None:
        for process in list(self._frozen):
            self.thaw(process)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        held = self._frozen.get(task.context.get(OWNER))
        if held is not None and task not in held:  # another instrument may have frozen it just now
            last = _ready().pop()
            assert last is task, "Trio appends a scheduled task to its queue"
            held.append(task)


def ready_tasks() -> list[trio.lowlevel.Task]:
    """Return the tasks that take a step in the next turn of Trio's loop."""
    return list(_ready())


def _ready() -> Any:
    """Return Trio's queue of ready tasks."""
    inside: Any = _run
    return inside.GLOBAL_RUN_CONTEXT.runner.runq
