"""Accepting connections within limits: the one accept loop of every port of this project.

A full port drops a half-open connection and admits the new one, so that a few addresses that connect and send nothing
cannot close the port to all others (see `half_open`). Only connections of one pool compete in this way; by default a
port has one pool. A new connection is refused if its host has too many connections, or if the port is full and no
connection of its pool is half-open.
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final, Protocol

import trio
from attrs import define, field, frozen

from zab.core.addresses import with_port
from zab.net.cannot_listen import CannotListen, cannot_listen
from zab.net.half_open import HalfOpen, HalfOpenWait

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""The errnos of `accept` at a limit of the process or the system.

The errors are temporary. Meanwhile the kernel queues connections. After each error the port drops a half-open
connection of its default pool, if there is one, and tries again after `EXHAUSTED_PAUSE_S`.
"""
EXHAUSTED_PAUSE_S: Final = 0.1
ACCEPTED_MAX: Final = 64
"""The maximum number of connections that one listener accepts in one pass of the event loop.

With one for each pass, a client would wait behind a burst for as many passes as the burst has connections.
"""


async def listen(host: str | None, port: int, purpose: str) -> list[trio.SocketListener]:
    """Listen at all addresses of `host` (None: all interfaces). If that fails, raise `CannotListen` with `purpose`."""
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise cannot_listen(host, port, purpose, error) from error


async def check_free(host: str | None, port: int, purpose: str) -> None:
    """Raise `CannotListen` if this server cannot listen at this address."""
    for listener in await listen(host, port, purpose):
        await listener.aclose()


class RateLimitedLog(Protocol):
    def warn_rate_limited(self, event: str, key: object, /, **fields: object) -> None: ...


class Limit(Enum):
    """A limit that a new connection exceeds."""

    CONNECTIONS = "connections"
    PER_HOST = "connections from its host"
    DESCRIPTORS = "open descriptors of this process"
    HALF_OPEN = "half-open connections"
    """A connection above this limit is admitted, and a half-open one of its pool is dropped."""


@frozen
class ListenerLimits:
    """The limits of one listener. None: no limit.

    connections_max   connections open at one time
    per_host_max      of these, from one host
    descriptors_max   descriptors of the process. A connection exceeds this limit if its descriptor has this number or a
                      higher one, or if as many connections are open already
    half_open_max     half-open connections of one pool
    """

    connections_max: int | None = None
    per_host_max: int | None = None
    descriptors_max: int | None = None
    half_open_max: int | None = None


@frozen
class Accepted:
    """An admitted connection. `host` and `peer` (host and port) are for limits and logs.

    `pool` has the half-open connections that compete with this one.
    """

    stream: Any
    host: str
    peer: str
    pool: HalfOpen

    def half_open(self) -> HalfOpenWait:
        """Return a `with` block in which the connection is half-open, so that the port may drop it."""
        return self.pool.entered(self.host)


@define(eq=False)
class ConnectionCounts:
    """The open connections of one port, or of several ports that share their limits."""

    total: int = 0
    by_host: Counter[str] = field(factory=Counter)
    """The number of connections of each host. Their sum is `total`, and none is 0."""
    half_open: HalfOpen = field(factory=HalfOpen)
    """The default pool of all these ports: a new connection at one port may displace a half-open one at another."""

    def add(self, host: str) -> None:
        self.total += 1
        self.by_host[host] += 1

    def remove(self, host: str) -> None:
        self.total -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


class LimitedListener:
    """The accept loop of one port: it counts connections, and passes the admitted ones to `serve`.

    port      the name of the port in the log
    limits    returns the limits; called for every connection, because settings may change
    serve     takes over the stream and closes it; if `serve` raises an exception, the listener closes the stream
    exceeded  called with the limit, host and peer if a connection is refused, or if it exceeds `half_open_max`
    pool      returns the pool of half-open connections that a host belongs to; by default all share that of `counts`
    counts    the connections that count for the limits; by default those of this port
    """

    def __init__(
        self,
        port: str,
        log: RateLimitedLog,
        limits: Callable[[], ListenerLimits],
        serve: Callable[[Accepted], Awaitable[None]],
        exceeded: Callable[[Limit, str, str], None],
        pool: Callable[[str], HalfOpen] | None = None,
        counts: ConnectionCounts | None = None,
    ) -> None:
        self._counts = counted = counts or ConnectionCounts()
        """The connections for which `serve` has not returned."""
        self._port = port
        self._log = log
        self._limits = limits
        self._serve = serve
        self._exceeded = exceeded
        self._pool = pool or (lambda host: counted.half_open)

    @property
    def count(self) -> int:
        """The number of connections that count for the limits."""
        return self._counts.total

    async def accept_from(self, listeners: Iterable[trio.abc.Listener[Any]], nursery: trio.Nursery) -> None:
        """Accept until cancelled. The connections are served in `nursery`, and stay open when this call ends.

        An error of `accept` that is not in `EXHAUSTED` is raised.
        """
        async with trio.open_nursery() as accepting:
            for listener in listeners:  # all interfaces need two listeners: one for IPv4, one for IPv6
                accepting.start_soon(self._accept_all, listener, nursery)

    async def _accept_all(self, listener: trio.abc.Listener[Any], nursery: trio.Nursery) -> None:
        """Accept from one listener.

        `trio.serve_listeners` cannot be used: it closes each stream itself, and only waits at the limit of descriptors.
        """
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in EXHAUSTED:
                        raise
                    self._log.warn_rate_limited("cannot_accept", error.errno, port=self._port, why=error.strerror)
                    self._counts.half_open.make_room()
                    await trio.sleep(EXHAUSTED_PAUSE_S)
                    continue
                nursery.start_soon(self._admit, stream)
                for another in self._waiting(listener):
                    nursery.start_soon(self._admit, another)

    def _waiting(self, listener: trio.abc.Listener[Any]) -> Iterator[trio.SocketStream]:
        """Accept further connections that the kernel has queued, without waiting.

        Stop at the first error, which the next `accept` meets again if it lasts. Stop also at the limit of descriptors:
        a refused connection keeps its descriptor until the next pass of the event loop.
        """
        if not isinstance(listener, trio.SocketListener) or listener.socket.fileno() < 0:  # it may have been closed
            return
        descriptors_max = self._limits().descriptors_max
        listening = socket.socket(fileno=listener.socket.fileno())
        try:
            listening.setblocking(False)
            for _ in range(ACCEPTED_MAX - 1):
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                yield trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
                if descriptors_max is not None and accepted.fileno() >= descriptors_max:
                    return
        finally:
            listening.detach()  # the descriptor belongs to `listener`

    async def _admit(self, stream: trio.abc.Stream) -> None:
        host, peer = peer_name(stream)
        pool = self._pool(host)
        limit = self._refusal(host, descriptor_of(stream), pool)
        if limit is not None:
            self._exceeded(limit, host, peer)
            await trio.aclose_forcefully(stream)
            return
        half_open_max = self._limits().half_open_max
        if half_open_max is not None and len(pool) >= half_open_max:
            self._exceeded(Limit.HALF_OPEN, host, peer)
            pool.make_room()
        self._counts.add(host)
        try:
            await self._serve(Accepted(stream, host, peer, pool))
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        finally:
            self._counts.remove(host)

    def _refusal(self, host: str, descriptor: int, pool: HalfOpen) -> Limit | None:
        limits = self._limits()
        if limits.per_host_max is not None and self._counts.by_host[host] >= limits.per_host_max:
            return Limit.PER_HOST
        # The descriptor alone could hide that the limit is reached: a new connection above the limit keeps its high
        # descriptor, and the next one gets the low descriptor of the connection that was dropped to make room.
        if limits.descriptors_max is not None and max(descriptor, self.count) >= limits.descriptors_max:
            full = Limit.DESCRIPTORS
        elif limits.connections_max is not None and self.count >= limits.connections_max:
            full = Limit.CONNECTIONS
        else:
            return None
        # The dropped connection is closed in the next pass of the loop. Until then, the limit may be exceeded.
        return full if pool.make_room() is None else None


class MovablePort:
    """A listener whose address may change. Open connections stay when it moves.

    opens  opens the listeners at an address, and returns them with the port's number, which the system chooses for 0;
           raises `CannotListen` if that fails
    """

    def __init__(
        self,
        listener: LimitedListener,
        opens: Callable[[Any, int], Awaitable[tuple[Iterable[trio.abc.Listener[Any]], int]]],
    ) -> None:
        self.bound: tuple[str | None, int] | None = None
        """The address at which this port listens; None before `bind`."""
        self._listener = listener
        self._opens = opens
        self._scope = trio.CancelScope()
        """Cancelled to close the listeners at `bound`."""
        self._closed = trio.Event()
        """Set when these listeners are closed."""

    async def bind(self, nursery: trio.Nursery, host: str | None, port: int) -> None:
        """Listen at this address, and no longer at the earlier one. The connections are served in `nursery`.

        Raise `CannotListen` if that fails: then the earlier one stays in use.
        """
        before = self.bound
        if before == (host, port):
            return
        try:
            await self._listen(nursery, host, port)
        except CannotListen as error:
            if before is None or before[1] != port or getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
                raise
            # The old listeners may hold the port: while they listen on all addresses, no single one is free.
            self._scope.cancel()
            await self._closed.wait()
            try:
                await self._listen(nursery, host, port)
            except CannotListen:
                await self._listen(nursery, *before)
                raise

    async def _listen(self, nursery: trio.Nursery, host: str | None, port: int) -> None:
        listeners, number = await self._opens(host, port)
        self._scope.cancel()
        self.bound = (host, number)
        self._scope, self._closed = trio.CancelScope(), trio.Event()
        nursery.start_soon(self._accept, listeners, nursery, self._scope, self._closed)

    async def _accept(
        self,
        listeners: Iterable[trio.abc.Listener[Any]],
        nursery: trio.Nursery,
        scope: trio.CancelScope,
        closed: trio.Event,
    ) -> None:
        with scope:
            await self._listener.accept_from(listeners, nursery)
        closed.set()


def descriptor_of(stream: trio.abc.Stream) -> int:
    """Return the number of the stream's descriptor, or -1 if it has none.

    The system assigns the least free number, so at least that many descriptors were open when this one was.
    """
    inner: Any = getattr(stream, "transport_stream", stream)
    try:
        number: int = inner.socket.fileno()
    except (AttributeError, OSError):
        return -1
    return number


def peer_name(stream: trio.abc.Stream) -> tuple[str, str]:
    """Return the host at the other end, and the text `host:port`; "unknown" for both if there is no address."""
    inner: Any = getattr(stream, "transport_stream", stream)
    try:
        host, port = inner.socket.getpeername()[:2]
    except (AttributeError, OSError):
        return "unknown", "unknown"
    return host, with_port(host, port)
