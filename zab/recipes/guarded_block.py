"""Run a block while a condition holds, and cancel it when the condition fails.

A lock whose session has expired protects nothing, so a task watches the session and cancels the block. Errors of the
block are raised unchanged and not in exception groups, because the user of a lock did not open a nursery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def guarded_by(*works: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `works` concurrently with the block. If one of them fails, cancel the block and raise the failure."""
    failed: list[Exception] = []
    ended: BaseException | None = None
    scope = trio.CancelScope()

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            failed.append(error)
            scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(run, work)
            try:
                with scope:
                    yield
            except BaseException as error:
                ended = error
            nursery.cancel_scope.cancel()
    finally:
        # Raise the error even if the nursery was cancelled meanwhile: otherwise the cancellation would replace it.
        if failed:
            raise failed[0] from (ended if isinstance(ended, Exception) else failed[0].__cause__)
        if ended is not None:
            raise ended
