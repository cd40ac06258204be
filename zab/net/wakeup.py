"""Wake one task, as cheaply as Trio can. The wakeup carries no data: the task checks for work by itself."""

from __future__ import annotations

import trio


class Wakeup:
    """A flag that one task waits for. Any task of the event loop may call `ring`, also before `wait`, and repeatedly.

    A caller that is awake already may do the work in place of the waiting task: between `hold` and `release`, `ring`
    wakes no task, and `answer` returns whether `ring` was called. A ring without an answer wakes the task at `release`.
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
        assert self._task is None, "two tasks wait for one wakeup"
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self._rung = False

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._task = self._held = None
        return trio.lowlevel.Abort.SUCCEEDED

    # -- doing the work of the waiting task ---------------------------------------------------------

    def hold(self) -> bool:
        """Take the waiting task's place until `release`. Return False if no task waits; `ring` then works as usual."""
        self._held, self._task = self._task, None
        return self._held is not None

    def answer(self) -> bool:
        """Return whether `ring` was called, and clear it: the caller now does the work."""
        rung, self._rung = self._rung, False
        return rung

    def release(self) -> None:
        self._task, self._held = self._held, None
        if self._rung:
            self.ring()
