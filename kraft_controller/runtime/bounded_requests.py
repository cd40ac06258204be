"""Concurrent requests to the store, with a limit.

For ten thousand partitions, sequential requests would take minutes, and unlimited ones would fill the memory of this
process and of the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import trio

from kraft_controller.core.store_requests import ControllerMoved

WINDOW: Final = 500
"""The default limit of concurrent calls in one `run_bounded`."""

T = TypeVar("T")


async def run_bounded(calls: Iterable[Callable[[], Awaitable[T]]], window: int = WINDOW) -> list[T]:
    """Run calls, at most `window` concurrently, and return their results in order.

    The first error cancels the rest. `ControllerMoved` takes precedence over any other error.
    """
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
        raise leading_error(group) from None
    return [results[place] for place in range(len(waiting))]


def leading_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error that represents those of several tasks: `ControllerMoved` if present, otherwise the first in the
    group."""
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves.append(leading_error(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((leaf for leaf in leaves if isinstance(leaf, ControllerMoved)), leaves[0])
