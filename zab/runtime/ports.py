"""The two ports of a server, and the dialling of those of others: streams whose other end has been greeted."""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import trio

from zab.core.zxid import ServerId
from zab.runtime.errors import cannot_listen
from zab.runtime.greet import UNREACHABLE, Handshake, described
from zab.runtime.half_open import HalfOpen
from zab.runtime.limits import Limits
from zab.runtime.logs import Log
from zab.runtime.network import Network
from zab.wire.greeting import Hello, Purpose

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Too many of something are open in this process or system. It passes; until then the queue is the kernel's."""
EXHAUSTED_PAUSE_S: Final = 0.1

ADDRESSES_MAX: Final = 1_000

Accepted = TypeVar("Accepted", bound=trio.abc.Stream)

Welcomed = Callable[[Hello, trio.abc.Stream], Awaitable[None]]
"""Takes over a stream whose dialler has been welcomed. From then on closing it is the taker's business."""


async def accept_all(
    listener: trio.abc.Listener[Accepted],
    nursery: trio.Nursery,
    serve: Callable[[Accepted], Awaitable[None]],
    log: Log,
    port: str,
) -> None:
    """Not `trio.serve_listeners`, which closes every stream with its handler, and ends with what a handler raises."""
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                log.grumble("cannot_accept", error.errno, port=port, why=error.strerror)
                await trio.sleep(EXHAUSTED_PAUSE_S)
            else:
                nursery.start_soon(serve, stream)


class Dialler:
    def __init__(self, network: Network, handshake: Handshake, limits: Limits, log: Log) -> None:
        self._network = network
        self._handshake = handshake
        self._log = log
        self._connect_s = limits.connect_ms / 1000

    async def dial(self, host: str, port: int, peer: ServerId, purpose: Purpose) -> trio.abc.Stream:
        try:
            with trio.fail_after(self._connect_s):
                stream = await self._network.connect(host, port)
        except socket.gaierror as error:
            # A server that is down says nothing about us. A name without an address is a mistake of somebody's.
            why = f"the name {host} has no address: {error.strerror}"
            self._log.grumble("host_unknown", host, peer=peer, host=host, why=why)
            raise
        try:
            await self._handshake.call(stream, peer, purpose)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream


class Port:
    """Listens, and lets in who says a valid hello in time. Everybody else costs a bounded amount, and a log line.

    Whoever says nothing takes nobody's place: one more who comes ends the wait for the oldest of the address that has
    most of them, and a member needs but a moment. Strangers never end the wait for somebody who comes from where
    members live, however many they are.
    """

    def __init__(
        self,
        purpose: Purpose,
        network: Network,
        handshake: Handshake,
        limits: Limits,
        log: Log,
        welcomed: Welcomed,
        lives_at: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self.bound: tuple[str, int] | None = None
        self._purpose = purpose
        self._network = network
        self._handshake = handshake
        self._limits = limits
        self._log = log
        self._welcomed = welcomed
        self._lives_at = lives_at
        self._greeting = {True: HalfOpen(), False: HalfOpen()}
        """Connections without a hello: from addresses where a member lives, or did, and from others."""
        self._welcome: dict[str, None] = {}
        """Addresses that a valid hello came from: names of hosts are not looked up here."""
        self._scope: trio.CancelScope | None = None

    async def bind(self, nursery: trio.Nursery, host: str, port: int) -> None:
        """Listen there, and no longer where it listened before. Links that exist already live on."""
        if self.bound == (host, port):
            return
        try:
            listeners = await self._network.listen(host, port)
        except OSError as error:
            raise cannot_listen(host, port, f"the {self._purpose.value} port", error) from error
        self.unbind()
        self.bound = (host, port)
        self._scope = trio.CancelScope()
        nursery.start_soon(self._serve, listeners, self._scope)

    def unbind(self) -> None:
        self.bound = None
        if self._scope is not None:
            self._scope.cancel()

    async def _serve(self, listeners: Sequence[trio.abc.Listener[trio.abc.Stream]], scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(accept_all, listener, nursery, self._greet, self._log, self._purpose.value)

    async def _greet(self, stream: trio.abc.Stream) -> None:
        host, peer = peer_name(stream)
        known = host in self._welcome or self._lives_at(host)
        alike = self._greeting[known]
        if len(alike) >= self._limits.handshakes_max:
            self._log.grumble("too_many_handshakes", (self._purpose, known), port=self._purpose.value, peer=peer)
            alike.make_room()
        hello: Hello | None = None
        try:
            with alike.entered(host):
                hello = await self._handshake.answer(stream, self._purpose)
        except UNREACHABLE as error:
            # One line for a host and a kind of mistake: neither a port scan nor a wrong configuration fills the log.
            kind = type(error).__name__
            why = described(error)
            self._log.grumble("stranger", (self._purpose, host, kind), port=self._purpose.value, peer=peer, why=why)
            await trio.aclose_forcefully(stream)
            return
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        if hello is None:
            await trio.aclose_forcefully(stream)
            return
        if len(self._welcome) < ADDRESSES_MAX:
            self._welcome[host] = None
        await self._welcomed(hello, stream)


def number_of(stream: trio.abc.Stream) -> int:
    """Of its descriptor, the least that was free: so many are open beside it, at least. -1 where it has none."""
    inner: Any = getattr(stream, "transport_stream", stream)
    try:
        number: int = inner.socket.fileno()
    except (AttributeError, OSError):
        return -1
    return number


def peer_name(stream: trio.abc.Stream) -> tuple[str, str]:
    """The host at the other end, and host and port; for logs only."""
    inner: Any = getattr(stream, "transport_stream", stream)
    try:
        host, port = inner.socket.getpeername()[:2]
    except (AttributeError, OSError):
        return "unknown", "unknown"
    return host, f"{host}:{port}"
