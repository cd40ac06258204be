"""Running a blocking job: in a thread, or in the calling task where nothing blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class InThread(Protocol):
    async def __call__(self, job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T: ...


async def in_thread(job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    return await trio.to_thread.run_sync(job, limiter=limiter)


async def in_task(job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    """Run the job in the calling task, for jobs on a disk in memory. The limiter has no effect."""
    await trio.lowlevel.checkpoint()
    return job()
