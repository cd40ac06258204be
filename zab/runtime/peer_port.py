"""The ports between servers, and dialling the ports of peers. Both provide streams after the greeting."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.net.cannot_listen import cannot_listen
from zab.net.half_open import HalfOpen
from zab.net.listener import Accepted, ConnectionCounts, Limit, LimitedListener, ListenerLimits, MovablePort
from zab.net.network import Network
from zab.net.tls.tls_stream import unified
from zab.runtime.peer_handshake import described
from zab.runtime.peer_protocol import UNREACHABLE, Introduction, PeerProtocol
from zab.service.limits import Limits
from zab.wire.greeting import Purpose

ADDRESSES_MAX: Final = 1_000

Welcomed = Callable[[Introduction, trio.abc.Stream], Awaitable[None]]
"""Takes over a stream after the greeting, its close included."""


class PeerDialler:
    """Connects to the ports of other servers, and greets them."""

    def __init__(self, network: Network, protocol: PeerProtocol, limits: Limits, log: Log) -> None:
        self.protocol = protocol
        self._network = network
        self._log = log
        self._connect_s = limits.connect_ms / 1000

    async def dial(self, host: str, port: int, peer: ServerId, purpose: Purpose) -> trio.abc.Stream:
        """Return a stream to `peer`, after the greeting. Raise one of `UNREACHABLE` if there is none in time."""
        try:
            with trio.fail_after(self._connect_s):
                stream = await self._network.connect(host, port)
        except socket.gaierror as error:
            # An unresolvable name is usually a configuration error, so warn of it. A server that is down needs no
            # warning.
            why = f"the name {host} cannot be resolved: {error.strerror}"
            self._log.warn_rate_limited("host_unknown", host, peer=peer, host=host, why=why)
            raise
        try:
            await self.protocol.call(stream, peer, purpose)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream


async def listen_for_peers(
    network: Network, purpose: Purpose, host: str, port: int
) -> tuple[Sequence[trio.abc.Listener[trio.abc.Stream]], int]:
    """Listen for other servers. Return the listeners and the port. Raise `CannotListen` if that fails."""
    try:
        return await network.listen(host, port), port
    except OSError as error:
        raise cannot_listen(host, port, f"the {purpose.value} port", error) from error


class PeerPort(MovablePort):
    """Listens, and passes on streams whose other end introduces itself in time. The memory for all others is bounded.

    Half-open connections are in two pools, for known and for unknown addresses, so connections from unknown addresses
    never displace those from known ones. If a pool holds `Limits.handshakes_max` connections, a new one drops the
    oldest connection of the host with the most in this pool. A connection of a member is half-open for a moment only.
    """

    def __init__(
        self,
        purpose: Purpose,
        network: Network,
        protocol: PeerProtocol,
        limits: Limits,
        log: Log,
        welcomed: Welcomed,
        lives_at: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._purpose = purpose
        self._protocol = protocol
        self._log = log
        self._welcomed = welcomed
        self._lives_at = lives_at
        self._first_byte_s = limits.handshake_ms / 1000
        """The time limit for the first byte at a port that accepts both TLS and plain text."""
        self._strangers, self._known = HalfOpen(), HalfOpen()
        """The pools of half-open connections. An address is known if it is in `_welcome` or in a known membership."""
        limits_ = ListenerLimits(half_open_max=limits.handshakes_max)
        counts = ConnectionCounts(half_open=self._strangers)  # the pool that makes room if descriptors run out
        listener = LimitedListener(purpose.value, log, lambda: limits_, self._greet, self._exceeded, self._pool, counts)
        super().__init__(listener, partial(listen_for_peers, network, purpose))
        self._welcome: dict[str, None] = {}
        """The first `ADDRESSES_MAX` addresses of servers that were welcome.

        Without them, a member would be unknown if the memberships contain its host name instead of its address.
        """

    def _pool(self, host: str) -> HalfOpen:
        return self._known if host in self._welcome or self._lives_at(host) else self._strangers

    def _exceeded(self, limit: Limit, host: str, peer: str) -> None:
        key = self._purpose, self._pool(host) is self._known
        self._log.warn_rate_limited("too_many_handshakes", key, port=self._purpose.value, peer=peer)

    async def _greet(self, accepted: Accepted) -> None:
        stream, host, peer = accepted.stream, accepted.host, accepted.peer
        introduced: Introduction | None = None
        try:
            with accepted.half_open():
                with trio.fail_after(self._first_byte_s):
                    stream = await unified(stream)
                introduced = await self._protocol.answer(stream, self._purpose)
        except UNREACHABLE as error:
            # The rate of lines is limited for each host and type of error, so that a port scan or a wrong
            # configuration cannot fill the log.
            kind = type(error).__name__
            why = described(error)
            self._log.warn_rate_limited(
                "peer_refused", (self._purpose, host, kind), port=self._purpose.value, peer=peer, why=why
            )
            await trio.aclose_forcefully(stream)
            return
        if introduced is None:
            await trio.aclose_forcefully(stream)
            return
        if len(self._welcome) < ADDRESSES_MAX:
            self._welcome[host] = None
        await self._welcomed(introduced, stream)
