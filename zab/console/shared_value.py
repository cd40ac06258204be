"""A value that concurrent visitors share, so that many visitors cost the servers hardly more than one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio

T = TypeVar("T")

REST: Final = 4
"""A value is used again for this many times the duration of its load, if that is longer than `for_s`."""
REST_S_MAX: Final = 30.0


class SharedValue(Generic[T]):
    """A value that is loaded by one visitor at a time, and used again for `for_s` seconds. An error is not kept.

    A value that takes long to load is used again for longer, so that the loads take at most a fifth of the time.
    """

    def __init__(self, load: Callable[[], Awaitable[T]], for_s: float) -> None:
        self._load = load
        self._for_s = for_s
        self._kept: tuple[float, T] | None = None
        """The time at which the value has to be loaded again, and the value."""
        self._turn = trio.Lock()

    async def get(self) -> T:
        async with self._turn:
            began = trio.current_time()
            if self._kept is None or began >= self._kept[0]:
                value = await self._load()
                now = trio.current_time()
                self._kept = (now + min(max(self._for_s, REST * (now - began)), REST_S_MAX), value)
            return self._kept[1]
