"""Connecting and listening: over TCP, unless the environment of the broker has another network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import trio

from zab.net import listener

Connect: TypeAlias = Callable[[str, int], Awaitable[trio.abc.HalfCloseableStream]]


class Listen(Protocol):
    async def __call__(self, host: str | None, port: int, purpose: str) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
        """Listen for connections. Return the port as well, which the system chooses for 0."""
        ...


connect_tcp: Final[Connect] = trio.open_tcp_stream


async def listen_tcp(host: str | None, port: int, purpose: str) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
    listeners = await listener.listen(host, port, purpose)
    return listeners, listeners[0].socket.getsockname()[1]
