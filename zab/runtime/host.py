"""What a member, or a store, takes from the machine on which it runs, beside its disk and the network to its peers.

Threads, chance, the wall clock, the port for clients, and the two parts that a simulation needs in other hands: the
writer, which has a thread of its own, and the node, of which whoever judges a run wants to see every step. All other
time in this floor is Trio's clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

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


class Listens(Protocol):
    async def __call__(self, host: str | None, port: int) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
        """For clients. With the port that was chosen, where any would do."""
        ...


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


async def listen(host: str | None, port: int) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
    listeners = await trio.open_tcp_listeners(port, host=host)
    return listeners, listeners[0].socket.getsockname()[1]


def in_loop(job: Callable[[], object]) -> None:
    trio.from_thread.run_sync(job)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@frozen
class Host:
    in_thread: InThread = in_thread
    check_cancelled: Callable[[], None] = trio.from_thread.check_cancelled
    """For a long job in a thread, now and then: raises when whoever waits for it does not any more."""
    in_loop: Callable[[Callable[[], object]], None] = in_loop
    """For a job in a thread: has something done in the event loop, and waits for it."""
    random_bytes: Callable[[int], bytes] = os.urandom
    listen: Listens = listen
    wall_ms: Callable[[], int] = wall_ms
    node: MakesNode = Node
    writer: MakesWriter = Writer


REAL_HOST = Host()
