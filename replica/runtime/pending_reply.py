"""A reply that one task waits for and another part of the broker gives."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

R = TypeVar("R")


class PendingReply(Generic[R]):
    """Holds one reply. None: it is not given yet, or none will come."""

    __slots__ = ("_given", "value")

    def __init__(self) -> None:
        self.value: R | None = None
        self._given = trio.Event()

    def give(self, value: R | None) -> None:
        """Wake the waiting task. None: no reply will come."""
        self.value = value
        self._given.set()

    async def wait(self) -> R | None:
        await self._given.wait()
        return self.value
