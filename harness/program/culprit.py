"""Find the line of the user at which a node is, for messages that name it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import trio

from harness.worlds.stack.scheduler import OWNER

OURS: Final = frozenset({"harness", "zab"})
RUNTIME: Final = OURS | {"trio", "logging", "outcome", "linecache", "traceback"}
"""The libraries that run a program. They may use clocks and random numbers, because these have no effect on the run."""
STANDARD: Final = frozenset(sys.stdlib_module_names)
_RUN: Final = "harness.worlds.stack.simulation"
"""The module that runs Trio. The frames below it belong to the caller of the harness, not to a node."""


def root_of(frame: FrameType) -> str:
    """Return the top package of the code that runs in the frame."""
    return _module(frame).partition(".")[0]


def of_frame(frame: FrameType | None) -> str | None:
    """Return the place of the innermost call of the user on a stack; None if a task has only libraries on it."""
    while frame is not None and _module(frame) != _RUN:
        if _is_users(frame):
            return _place(frame, frame.f_lineno)
        frame = frame.f_back
    return None


def of_task(task: trio.lowlevel.Task) -> str | None:
    """Return the place at which a suspended task waits: its innermost call of the user.

    A task that has only libraries on its stack is named by the task of the same node that started it.
    """
    for each in _with_starters(task):
        places = [_place(frame, line) for frame, line in each.iter_await_frames() if _is_users(frame)]
        if places:
            return places[-1]
    return None


def of_starters(task: trio.lowlevel.Task) -> str | None:
    """Return the place of the task that started the given one, which runs."""
    nursery = task.parent_nursery
    return None if nursery is None else of_task(nursery.parent_task)


def _with_starters(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    owner = task.context.get(OWNER)
    found: trio.lowlevel.Task | None = task
    while found is not None and found.context.get(OWNER) is owner:
        yield found
        nursery = found.parent_nursery
        found = None if nursery is None else nursery.parent_task


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_users(frame: FrameType) -> bool:
    root = root_of(frame)
    return root == "__main__" or root not in STANDARD | RUNTIME


def _place(frame: Any, line: int | None) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{line} in {code.co_name}"
