"""Wakes one task, as cheaply as Trio can. What there is to do, the task finds out by itself."""

from __future__ import annotations

import trio


class Doorbell:
    """`ring` from anywhere in the loop, also before `wait` and as often as you like; one task waits."""

    __slots__ = ("_rung", "_task")

    def __init__(self) -> None:
        self._rung = False
        self._task: trio.lowlevel.Task | None = None

    def ring(self) -> None:
        self._rung = True
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        if self._rung:
            self._rung = False
            await trio.lowlevel.checkpoint()
            return
        assert self._task is None, "two tasks wait at one door"
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._give_up)
        self._rung = False

    def _give_up(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
