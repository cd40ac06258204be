"""The simulated environment of a broker's process: network, threads, clocks and random numbers.

Trio makes its usual streams and listeners from sockets that are ends of the simulated network. A socket belongs to the
process whose task makes it. There are no threads: a job runs in the loop after a random delay. The shipped broker takes
the wall clock and random bytes from the standard library, so those functions are patched for the duration of a run.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Final, TypeVar
from unittest.mock import patch

import trio

from zab.net.memory_network import MemoryListener, MemoryStream

T = TypeVar("T")

DAY_S: Final = 1_700_000_000
"""The wall clock at the begin of a run, in seconds since the epoch."""


PROCESS: Final[ContextVar[Any]] = ContextVar("PROCESS")
Address = tuple[str, int]


class Sockets(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    def socket(self, *_: Any, **__: Any) -> VirtualSocket:
        return VirtualSocket(PROCESS.get())

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        await trio.lowlevel.checkpoint()
        name = host.decode() if isinstance(host, bytes) else host
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (name, port))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return str(sockaddr[0]), str(sockaddr[1])


class VirtualSocket(trio.socket.SocketType):
    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP
    did_shutdown_SHUT_WR = False

    def __init__(self, process: Any, end: MemoryStream | None = None, peer: Address = ("", 0)) -> None:
        super().__init__()
        self._process = process
        self._end = end
        self._listener: MemoryListener | None = None
        self._name: Address = ("", 0)
        self._peer = peer

    def setsockopt(self, *_: Any) -> None:
        pass

    def getsockopt(self, level: int, option: int, buflen: int = 0) -> Any:
        return int(option == socket.SO_ACCEPTCONN and self._listener is not None)

    def fileno(self) -> int:
        return -1

    def getsockname(self) -> Address:
        return self._name

    def getpeername(self) -> Address:
        return self._peer

    # -- redirected_log -----------------------------------------------------------------------------------

    async def bind(self, address: Any) -> None:
        await trio.lowlevel.checkpoint()
        self._name = address

    def listen(self, backlog: int = 0) -> None:
        net, (host, _) = self._process.net, self._name
        if self._name in net.listeners and not net.listeners[self._name].owner.dead:
            raise OSError(errno.EADDRINUSE, f"address {self._name} is in use")
        party: Any = self._process.party(host)
        self._listener = net.listeners[self._name] = MemoryListener(net, self._name, party)

    async def accept(self) -> tuple[VirtualSocket, Address]:
        assert self._listener is not None
        try:
            end = await self._listener.accept()
        except (trio.ClosedResourceError, trio.EndOfChannel):
            raise OSError(errno.EBADF, "the listener is closed") from None
        peer = (f"c{-end.other.owner.server.id}", 0)
        return VirtualSocket(self._process, end, peer), peer

    # -- a connection --------------------------------------------------------------------------------

    async def connect(self, address: Any) -> None:
        host, port = address
        self._end = await self._process.net.connect(self._process.party(host), host, port)
        self._peer = address

    async def send(self, data: Any, flags: int = 0) -> int:
        assert self._end is not None
        try:
            await self._end.send_all(bytes(data))
        except trio.BrokenResourceError:
            raise OSError(errno.ECONNRESET, "the connection broke") from None
        except trio.ClosedResourceError:
            raise OSError(errno.EBADF, "this end is closed") from None
        return len(data)

    async def recv(self, most: int, flags: int = 0) -> bytes:
        assert self._end is not None
        try:
            return await self._end.receive_some(most)
        except trio.BrokenResourceError:
            raise OSError(errno.ECONNRESET, "the connection broke") from None
        except trio.ClosedResourceError:
            raise OSError(errno.EBADF, "this end is closed") from None

    async def wait_writable(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if self._end is not None:
            self._end.close()
        elif self._listener is not None:
            self._listener.close()


class Threads:
    """Runs jobs in the loop, each after a delay in microseconds that is drawn from a range."""

    def __init__(self, random: Random, delay_us: tuple[int, int]) -> None:
        self._random = random
        self._delay_us = delay_us

    async def run(self, job: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        await trio.sleep(self._random.randint(*self._delay_us) / 1e6)
        return job()


@contextmanager
def arranged(random: Random) -> Iterator[None]:
    """Patch clocks and random bytes."""

    def now() -> float:
        return DAY_S + trio.current_time()

    with ExitStack() as stack:
        for where, name, instead in (
            (time, "time", now),
            (time, "time_ns", lambda: int(now() * 1e9)),
            (os, "urandom", random.randbytes),
        ):
            stack.enter_context(patch.object(where, name, instead))
        yield


def use_sockets() -> None:
    """Use simulated sockets from now on in this run of Trio."""
    sockets = Sockets()
    trio.socket.set_custom_socket_factory(sockets)
    trio.socket.set_custom_hostname_resolver(sockets)
