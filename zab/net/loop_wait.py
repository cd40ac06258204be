"""The event loop's wait while no task can run. Data that arrives then is handled without a pass of Trio's loop.

Such a pass costs a third of the time that a short message needs: Trio notices that a descriptor is ready and wakes a
task, which reads and waits again. If a command has claimed the loop, this module waits in place of Trio. It handles
received data within the wait, and continues to wait unless a task has become runnable or a deadline has moved. Trio's
own descriptors end the wait, too, because the epoll in which Trio keeps them is one of the descriptors waited for.

This module uses private names of Trio. So only two commands claim their loop, by `claim_this_loop`: `zab serve` and
`zab dev`. Everywhere else a task waits, with public Trio only: in an application with an embedded store, in a guest
run, for a second reader in one loop, and if Trio has changed its private names.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

import trio

ReadyDescriptors: TypeAlias = list[tuple[int, int]]
"""Descriptors, and what they are ready for. One of them may be Trio's epoll."""

READY_MAX: Final = 256
"""The maximum number of descriptors in one round. The next round begins with the others."""

_claimed: Final = trio.lowlevel.RunVar("zab_loop_claimed", False)
_taken: Final = trio.lowlevel.RunVar("zab_loop_wait_taken", False)
"""True while one `LoopWait` waits for this loop."""


def claim_this_loop() -> None:
    """Allow private names of Trio in the current run. Only a command calls this, in a process that does nothing else.

    A `wait_for_epoll` that has begun before this call keeps waiting in its task.
    """
    _claimed.set(True)


async def wait_for_epoll(epoll: select.epoll, on_ready: Callable[[ReadyDescriptors], None]) -> None:
    """Call `on_ready` with the ready descriptors of `epoll`, again and again, until cancelled or until it raises."""
    runner = _runner() if _claimed.get() and not _taken.get() else None
    if runner is None:
        while True:
            await trio.lowlevel.wait_readable(epoll.fileno())
            on_ready(epoll.poll(0, READY_MAX))
    wait = LoopWait(runner, epoll, on_ready)
    _taken.set(True)
    trio.lowlevel.add_instrument(wait)
    try:
        await wait.until_error()
    finally:
        trio.lowlevel.remove_instrument(wait)
        _taken.set(False)


def _runner() -> Any:
    """Return Trio's loop; None if its private names have changed, or in a guest run, where the host loop waits."""
    try:
        runner: Any = import_module("trio._core._run").GLOBAL_RUN_CONTEXT.runner
        known = not runner.is_guest and isinstance(runner.io_manager._epoll, select.epoll)
        return runner if known and isinstance(runner.deadlines.next_deadline(), float) else None
    except (ImportError, AttributeError):
        return None


class LoopWait(trio.abc.Instrument):
    """An instrument of Trio that waits for I/O in Trio's place: Trio calls it just before its own wait."""

    def __init__(self, runner: Any, epoll: select.epoll, on_ready: Callable[[ReadyDescriptors], None]) -> None:
        self._runner = runner
        self._epoll = epoll
        self._on_ready = on_ready
        self._token = trio.lowlevel.current_trio_token()
        self._trios_epoll = (runner.io_manager._epoll.fileno(), select.EPOLLIN)
        """Trio's own epoll, as `epoll.poll` reports it when it is ready: descriptor and event."""
        self._task: trio.lowlevel.Task | None = None
        """The task that sleeps in `until_error`. None if it has not begun, was cancelled, or is about to raise."""
        self._error: BaseException | None = None
        """The exception of `on_ready`, for `until_error` to raise; None if there was none."""

    async def until_error(self) -> None:
        """Sleep until `on_ready` raises, and raise its exception."""
        self._epoll.register(*self._trios_epoll)
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._give_up)
        assert self._error is not None
        raise self._error

    def _give_up(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def before_io_wait(self, timeout: float) -> None:
        """Handle received data. Then wait in Trio's place, unless a task or `wait_all_tasks_blocked` can run.

        Trio calls this before its own wait of at most `timeout`. The wait here ends if a descriptor of Trio's is ready,
        the time is over, a task has become runnable, or the next deadline has moved. Afterwards Trio still does its own
        wait. This ends at once in the first case; in all others, this method wakes Trio's loop.
        """
        runner, poll, trios_epoll = self._runner, self._epoll.poll, self._trios_epoll
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
            if trios_epoll in ready:
                return
            timeout = until - time.monotonic()
            if not ready or timeout <= 0 or runnable or deadlines.next_deadline() != deadline:
                self._token.run_sync_soon(_wake_loop)  # Trio has already computed how long it will wait
                return

    def _round(self, ready: ReadyDescriptors) -> None:
        try:
            self._on_ready(ready)
        except BaseException as error:  # Trio would only log it, and never call this instrument again
            task, self._task, self._error = self._task, None, error
            if task is not None:  # otherwise the task was cancelled within the round, and ends anyway
                trio.lowlevel.reschedule(task)


def _wake_loop() -> None:
    """Do nothing: the call itself wakes the loop."""
