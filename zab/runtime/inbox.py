"""The input of the next turn.

While its messages and the data that waits for the disk together exceed `bytes_max`, no link to another server is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from zab.core.zxid import Millis, ServerId
from zab.net.wakeup import Wakeup
from zab.runtime.link import Link

Source: TypeAlias = Link | ServerId
"""A learner link, or the server at the other end of an election link."""

Job: TypeAlias = Callable[[Millis], object]
"""A function that needs the node. It is called within a turn, with the time of the turn."""


class Inbox:
    """Gathers received messages, and jobs that need the node, until a turn takes them."""

    def __init__(self, wakeup: Wakeup, bytes_max: int, backlog: Callable[[], int]) -> None:
        """`backlog` returns the bytes that wait for the disk.

        They count towards `bytes_max`, so that a slow disk slows down the reading.
        """
        self.jobs: list[Job] = []
        self._wakeup = wakeup
        """Every `put` and `call` rings it."""
        self._bytes_max = bytes_max
        self._backlog = backlog
        self._items: list[tuple[Source, list[Any]]] = []
        self._bytes = 0
        """The received bytes of the messages in `_items`."""
        self._room = trio.lowlevel.ParkingLot()
        self._awaited = False
        """True while a task waits for `_room`."""

    def put(self, source: Source, messages: list[Any], size: int = 0) -> None:
        """Add messages that were received together."""
        self._items.append((source, messages))
        self._bytes += size
        self._wakeup.ring()

    @property
    def has_room(self) -> bool:
        """Return whether more may be read."""
        return self._bytes + self._backlog() <= self._bytes_max

    async def wait_for_room(self) -> None:
        """Wait until more may be read. A receiver calls this between `put` and its next read."""
        while not self.has_room:
            self._awaited = True
            await self._room.park()

    def call(self, job: Job) -> None:
        """Call a job in the next turn, after the messages."""
        self.jobs.append(job)
        self._wakeup.ring()

    def take_jobs(self) -> list[Job]:
        """Remove all jobs and return them."""
        jobs, self.jobs = self.jobs, []
        return jobs

    def take(self) -> list[tuple[Source, list[Any]]]:
        """Remove all messages and return them, in the order of their arrival."""
        items, self._items = self._items, []
        self._bytes = 0
        if self._awaited:
            self._awaited = False
            self._room.unpark_all()
        return items
