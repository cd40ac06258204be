"""What has happened and not been dealt with, in order, brokers that come and go before anything else. What is there
already need not be there twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from kraft_controller.core.events import BrokersChanged, Event, StateChanged, StatesChanged, TookOver

GATHERED_MAX: Final = 200
"""Changed states that are looked at together; meanwhile nothing else has its turn."""


class NotController(Exception):
    """This broker is not the controller, or is not any more. Ask the one who is."""


class EventFailed(Exception):
    """The controller raised something unforeseen while it handled this event. Asking another one would do the same."""


class Waiter:
    """For what comes of a request."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._result: Any = None
        self._error: Exception | None = None

    async def wait(self) -> Any:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def done(self, result: Any = None, error: Exception | None = None) -> None:
        if not self._done.is_set():
            self._result, self._error = result, error
            self._done.set()


class Queue:
    """Events that nobody waits for are notes that something is different, so one of a kind is enough."""

    def __init__(self, now_s: Callable[[], float] = trio.current_time) -> None:
        self._now_s = now_s
        self._waiting: deque[tuple[Event, Waiter | None, float]] = deque()
        self._noted: set[Event] = set()
        self._bell = trio.Event()
        self.longest = 0
        self.waited_s = 0.0
        """The event that was taken last."""

    def __len__(self) -> int:
        return len(self._waiting)

    def note(self, event: Event) -> None:
        if event not in self._noted:
            self._noted.add(event)
            self._put(event, None)

    def ask(self, event: Event) -> Waiter:
        waiter = Waiter()
        self._put(event, waiter)
        return waiter

    async def take(self) -> tuple[Event, Waiter | None]:
        while not self._waiting:
            await self._bell.wait()
        event, waiter, since = self._waiting.popleft()
        self.waited_s = self._now_s() - since
        if waiter is None:
            self._noted.discard(event)
        if isinstance(event, StateChanged):
            return self._gathered(event), waiter
        return event, waiter

    def _gathered(self, first: StateChanged) -> Event:
        """With the others of its kind that wait: it is much cheaper to look at all of them together."""
        some, others = [first.where], deque[tuple[Event, Waiter | None, float]]()
        for event, waiter, since in self._waiting:
            if isinstance(event, StateChanged) and waiter is None and len(some) < GATHERED_MAX:
                self._noted.discard(event)
                some.append(event.where)
            else:
                others.append((event, waiter, since))
        self._waiting = others
        return first if len(some) == 1 else StatesChanged(tuple(some))

    def end(self) -> None:
        """Whoever waits hears that this is not the controller any more."""
        for _, waiter, _ in self._waiting:
            if waiter is not None:
                waiter.done(error=NotController("this broker is not the controller any more"))
        self._waiting.clear()
        self._noted.clear()

    def _put(self, event: Event, waiter: Waiter | None) -> None:
        place = len(self._waiting)
        if isinstance(event, BrokersChanged):  # whose partitions have no leader as long as this waits
            place = 1 if self._waiting and isinstance(self._waiting[0][0], TookOver) else 0
        self._waiting.insert(place, (event, waiter, self._now_s()))
        self.longest = max(self.longest, len(self._waiting))
        self._bell.set()
        self._bell = trio.Event()
