"""Where the loop waits while nothing can run: what arrives meanwhile is heard without a pass of Trio's loop.

Such a pass costs a third of what a short message asks for: Trio is told that something has arrived, wakes a task, which
looks, and asks to be told again. Here the wait itself is ours. What has arrived is heard in the midst of it, and the
wait goes on, unless that has made a task runnable or moved a deadline. Whatever Trio waits for ends it, too: the epoll
in which Trio keeps all that is one of the things that are waited for.

There is one place to wait in a loop, so whoever comes second waits by a task. So does everybody where Trio has no such
`epoll`, or not where it is looked for: that is the one thing here which Trio has not promised to keep.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

import trio

Ready: TypeAlias = list[tuple[int, int]]
"""Descriptors, and what they are ready for. One that nobody knows is Trio's."""

READY_MAX: Final = 256
"""In one round. The others come first in the next."""

_taken: Final = trio.lowlevel.RunVar("zab_idle", False)


async def attend(epoll: select.epoll, hear: Callable[[Ready], None]) -> None:
    """`hear` of whatever gets ready in this `epoll`: until cancelled, or until it raises."""
    runner = None if _taken.get() else _runner()
    if runner is None:
        while True:
            await trio.lowlevel.wait_readable(epoll.fileno())
            hear(epoll.poll(0, READY_MAX))
    idle = Idle(runner, epoll, hear)
    _taken.set(True)
    trio.lowlevel.add_instrument(idle)
    try:
        await idle.over()
    finally:
        trio.lowlevel.remove_instrument(idle)
        _taken.set(False)


def _runner() -> Any:
    """What Trio calls its loop; None where it is not as it is known here, or a guest: then the wait is its host's."""
    try:
        runner: Any = import_module("trio._core._run").GLOBAL_RUN_CONTEXT.runner
        known = not runner.is_guest and isinstance(runner.io_manager._epoll, select.epoll)
        return runner if known and isinstance(runner.deadlines.next_deadline(), float) else None
    except (ImportError, AttributeError):
        return None


class Idle(trio.abc.Instrument):
    def __init__(self, runner: Any, epoll: select.epoll, hear: Callable[[Ready], None]) -> None:
        self._runner = runner
        self._epoll = epoll
        self._hear = hear
        self._token = trio.lowlevel.current_trio_token()
        self._trios = (runner.io_manager._epoll.fileno(), select.EPOLLIN)
        self._task: trio.lowlevel.Task | None = None
        self._error: BaseException | None = None

    async def over(self) -> None:
        """Raises what `hear` has raised."""
        self._epoll.register(*self._trios)
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._give_up)
        assert self._error is not None
        raise self._error

    def _give_up(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def before_io_wait(self, timeout: float) -> None:
        """If something can run, or a test waits until nothing can, nobody waits here; what has arrived is heard."""
        runner, poll, trios = self._runner, self._epoll.poll, self._trios
        if self._task is None:
            return
        if timeout <= 0 or runner.waiting_for_idle:
            ready = poll(0, READY_MAX)
            if ready:
                self._round(ready)
            return
        deadlines, runnable = runner.deadlines, runner.runq
        deadline, until = deadlines.next_deadline(), time.monotonic() + timeout
        while True:
            ready = poll(timeout, READY_MAX)
            if ready:
                self._round(ready)
            if trios in ready:
                return
            timeout = until - time.monotonic()
            if not ready or timeout <= 0 or runnable or deadlines.next_deadline() != deadline:
                self._token.run_sync_soon(_nothing)  # how long Trio waits now, was settled before
                return

    def _round(self, ready: Ready) -> None:
        try:
            self._hear(ready)
        except BaseException as error:  # Trio would only log it, and never call this instrument again
            task, self._task, self._error = self._task, None, error
            if task is not None:  # else it was cancelled in the midst of that, and goes anyway
                trio.lowlevel.reschedule(task)


def _nothing() -> None:
    """It wakes the loop."""
