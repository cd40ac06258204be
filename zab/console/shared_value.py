"""A value that concurrent visitors share, so that many visitors cost the servers hardly more than one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class SharedValue(Generic[T]):
    """A value that is loaded at most once at a time, and used again for `for_s` seconds. An error is not kept."""

    def __init__(self, load: Callable[[], Awaitable[T]], for_s: float) -> None:
        self._load = load
        self._for_s = for_s
        self._kept: tuple[float, T] | None = None
        """When the value was loaded, and the value."""
        self._turn = trio.Lock()

    async def get(self) -> T:
        async with self._turn:
            now = trio.current_time()
            if self._kept is None or now - self._kept[0] >= self._for_s:
                self._kept = (now, await self._load())
            return self._kept[1]
