"""Wakes one task, as cheaply as Trio can. What there is to do, the task finds out by itself."""

from __future__ import annotations

import trio


class Doorbell:
    """`ring` from anywhere in the loop, also before `wait` and as often as you like; one task waits.

    Who is awake anyway may stand in for that task: between `hold` and `release` a ring wakes nobody, and `answer` says
    whether there was one. What has rung and was not answered by then, the task hears.
    """

    __slots__ = ("_held", "_rung", "_task")

    def __init__(self) -> None:
        self._rung = False
        self._task: trio.lowlevel.Task | None = None
        self._held: trio.lowlevel.Task | None = None

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
        self._task = self._held = None
        return trio.lowlevel.Abort.SUCCEEDED

    # -- in place of the one who waits -------------------------------------------------------------

    def hold(self) -> bool:
        """False: nobody waits, and whoever would is awake. Then a ring is heard as ever."""
        self._held, self._task = self._task, None
        return self._held is not None

    def answer(self) -> bool:
        """Whether it has rung. If so, what there is to do is yours."""
        rung, self._rung = self._rung, False
        return rung

    def release(self) -> None:
        self._task, self._held = self._held, None
        if self._rung:
            self.ring()
