"""A reply that one task waits for and another one delivers."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

R = TypeVar("R")


class PendingReply(Generic[R]):
    """Holds one reply; None while it is pending, or if there will be none."""

    __slots__ = ("_given", "value")

    def __init__(self) -> None:
        self.value: R | None = None
        self._given = trio.Event()

    def give(self, value: R | None) -> None:
        """Deliver the reply to the waiting task; None if there will be none."""
        self.value = value
        self._given.set()

    async def wait(self) -> R | None:
        await self._given.wait()
        return self.value
