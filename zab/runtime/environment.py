"""The environment of a member or a store, except the disk and the network to the peers.

It consists of threads, random bytes, the wall clock and the client port. It also has the writer, which has a thread of
its own, and the node, so that a simulation can replace the writer and observe every step of the node. Time limits use
Trio's clock, which a simulation replaces as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio
from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.node import Node
from zab.core.ready import Recovered, Settings
from zab.core.zxid import Millis, ServerId
from zab.host.clocks import wall_ms
from zab.host.threads import InThread, in_thread
from zab.runtime.writer import Writer
from zab.storage.storage import Storage


class ListenForClients(Protocol):
    async def __call__(self, host: str | None, port: int) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
        """Listen for clients. Return the listeners and their port, which the system chooses if `port` is 0."""
        ...


class NodeFactory(Protocol):
    def __call__(
        self,
        me: ServerId,
        ensemble: Ensemble,
        recovered: Recovered,
        settings: Settings,
        jitter: Callable[[Millis], Millis],
        now: Millis,
    ) -> Node: ...


class WriterFactory(Protocol):
    def __call__(self, storage: Storage, pause_us_max: int) -> Writer: ...


async def listen(host: str | None, port: int) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
    listeners = await trio.open_tcp_listeners(port, host=host)
    return listeners, listeners[0].socket.getsockname()[1]


def in_loop(job: Callable[[], object]) -> None:
    trio.from_thread.run_sync(job)


@frozen
class Environment:
    """The replaceable parts; the defaults are the real ones."""

    in_thread: InThread = in_thread
    check_cancelled: Callable[[], None] = trio.from_thread.check_cancelled
    """A long job in a thread calls this at intervals. The call raises once the caller of the job is cancelled."""
    in_loop: Callable[[Callable[[], object]], None] = in_loop
    """A job in a thread calls this to run a function in the event loop and wait for it."""
    random_bytes: Callable[[int], bytes] = os.urandom
    listen: ListenForClients = listen
    wall_ms: Callable[[], int] = wall_ms
    node: NodeFactory = Node
    writer: WriterFactory = Writer


REAL_ENVIRONMENT = Environment()
