"""Many requests to the store under way at the same time, and yet not more than so many.

With ten thousand partitions, whoever waited for each answer before it asks the next would take minutes; and whoever
asked all at once would hold them all in memory, here and at the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import trio

from kraft_controller.core.asks import ControllerMoved

WINDOW: Final = 500
"""So many requests are under way at the same time."""

T = TypeVar("T")


async def together(calls: Iterable[Callable[[], Awaitable[T]]], window: int = WINDOW) -> list[T]:
    """What each returns, in their order. The first error ends all of it; that of being deposed before any other."""
    waiting = list(calls)
    if len(waiting) == 1:
        return [await waiting[0]()]
    results: dict[int, T] = {}
    places = iter(range(len(waiting)))

    async def work() -> None:
        for place in places:
            results[place] = await waiting[place]()

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(window, len(waiting))):
                nursery.start_soon(work)
    except BaseExceptionGroup as group:
        raise sole(group) from None
    return [results[place] for place in range(len(waiting))]


def sole(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to be told of those of several tasks. Being deposed before anything else: the rest follows from it."""
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.append(sole(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((leaf for leaf in leaves if isinstance(leaf, ControllerMoved)), leaves[0])
