"""What was received and not yet looked at, bounded: when it is full, nothing more is read from any socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from zab.core.zxid import ServerId
from zab.net.wakeup import Wakeup
from zab.runtime.link import Link

Source: TypeAlias = Link | ServerId
"""A learner link, or the server at the other end of an election link."""


class Inbox:
    def __init__(self, wakeup: Wakeup, bytes_max: int, backlog: Callable[[], int]) -> None:
        self._wakeup = wakeup
        self._bytes_max = bytes_max
        self._backlog = backlog
        self._items: list[tuple[Source, list[Any]]] = []
        self._bytes = 0
        self._room = trio.lowlevel.ParkingLot()
        self._awaited = False

    def put(self, source: Source, messages: list[Any], size: int = 0) -> None:
        self._items.append((source, messages))
        self._bytes += size
        self._wakeup.ring()

    @property
    def has_room(self) -> bool:
        """Whether more may be read. The disk's backlog counts: a slow disk slows its own server's reading."""
        return self._bytes + self._backlog() <= self._bytes_max

    async def wait_for_room(self) -> None:
        """After `put`, before reading on."""
        while not self.has_room:
            self._awaited = True
            await self._room.park()

    def take(self) -> list[tuple[Source, list[Any]]]:
        items, self._items = self._items, []
        self._bytes = 0
        if self._awaited:
            self._awaited = False
            self._room.unpark_all()
        return items
