"""What a member takes from the machine on which it runs, beside its disk and its network.

Threads, chance, the wall clock, and the two parts that a simulation needs in other hands: the writer, which has a
thread of its own, and the node, of which whoever judges a run wants to see every step. All other time in this floor
is Trio's clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import trio
from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.node import Node
from zab.core.ready import Recovered, Settings
from zab.core.zxid import Millis, ServerId, Ticket
from zab.runtime.writer import Writer
from zab.storage.storage import Storage

T = TypeVar("T")


class InThread(Protocol):
    async def __call__(self, job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T: ...


class MakesNode(Protocol):
    def __call__(
        self,
        me: ServerId,
        ensemble: Ensemble,
        recovered: Recovered,
        settings: Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> Node: ...


class MakesWriter(Protocol):
    def __call__(self, storage: Storage, report: Callable[[Ticket], None], pause_us_max: int) -> Writer: ...


async def in_thread(job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
    return await trio.to_thread.run_sync(job, limiter=limiter)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@frozen
class Host:
    in_thread: InThread = in_thread
    check_cancelled: Callable[[], None] = trio.from_thread.check_cancelled
    """For a long job in a thread, now and then: raises when whoever waits for it does not any more."""
    random_bytes: Callable[[int], bytes] = os.urandom
    wall_ms: Callable[[], int] = wall_ms
    node: MakesNode = Node
    writer: MakesWriter = Writer


REAL_HOST = Host()
