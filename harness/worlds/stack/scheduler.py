"""Trio's order of tasks, made a function of a seed, and tasks that get no turn for a while.

Both are private to Trio, so they are touched here and nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import trio
from trio._core import _run

_SWITCH: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_CHANCE: Final = "_r"
WHOSE: Final[ContextVar[object]] = ContextVar("WHOSE")
"""Whose task it is. Tasks are of the process of whoever starts them."""


class StrangeTrio(Exception):
    """This version of Trio orders its tasks in a way that is not known here: no run would repeat."""


@contextmanager
def ordered_by(seed: str) -> Iterator[None]:
    """A `trio.run` in this block runs its tasks in an order that only depends on `seed` and on what they do."""
    inside: Any = _run
    chance = getattr(inside, _CHANCE, None)
    switch = getattr(inside, _SWITCH, None)
    if not isinstance(chance, random.Random) or not isinstance(switch, bool):
        raise StrangeTrio(f"trio has no {_CHANCE} and {_SWITCH} any more: see how its run loop orders a batch now")
    before = chance.getstate()
    chance.seed(seed)
    setattr(inside, _SWITCH, True)
    try:
        yield
    finally:
        setattr(inside, _SWITCH, switch)
        chance.setstate(before)


class StandStill(trio.abc.Instrument):
    """Processes whose tasks have no turn until they go on.

    Time goes on meanwhile, as it does for a process that is stopped: whatever was to happen in it is overdue when it
    goes on, and nobody can say in which order that and what waits in its sockets come to be looked at.
    """

    def __init__(self) -> None:
        self._held: dict[object, list[trio.lowlevel.Task]] = {}

    def stop(self, process: object) -> None:
        """In the middle of whatever it does: from the next turn of each of its tasks on."""
        if not self._held:
            trio.lowlevel.add_instrument(self)
        ready = _ready()
        mine = [task for task in ready if task.context.get(WHOSE) is process]
        for task in mine:
            ready.remove(task)
        self._held[process] = mine

    def go_on(self, process: object) -> None:
        held = self._held.pop(process, None)
        if held is not None:
            _ready().extend(held)
            if not self._held:
                trio.lowlevel.remove_instrument(self)

    def all_go_on(self) -> None:
        for process in list(self._held):
            self.go_on(process)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        held = self._held.get(task.context.get(WHOSE))
        if held is not None:
            last = _ready().pop()
            assert last is task, "what is scheduled is the last that is ready"
            held.append(task)


def _ready() -> Any:
    """Whose turn it is next."""
    inside: Any = _run
    return inside.GLOBAL_RUN_CONTEXT.runner.runq
