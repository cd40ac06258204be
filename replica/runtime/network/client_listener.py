"""A listener for clients: it accepts connections within the limits, and serves each with a `ConnectionShell`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any

import trio

from replica.core.network.connection_limits import ConnectionLimits
from replica.core.security.principals import NoPrincipal, Principals
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.logs import Log
from replica.runtime.network.connection_shell import ConnectionShell
from replica.runtime.network.listener_context import ListenerContext
from replica.runtime.network.tls_handshake import accept_tls
from replica.runtime.network.transport import Listen, listen_tcp
from replica.runtime.requests import ANONYMOUS, Handlers
from zab.host.watchdog import UNWATCHED, Watchdog
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits


class ClientListener:
    """Accepts the connections of clients at one port."""

    def __init__(
        self,
        name: str,
        host: str | None,
        port: int,
        handlers: Handlers,
        log: Log,
        settings: ConnectionLimits | None = None,
        security: ListenerSecurity = NO_SASL,
        tls: ssl.SSLContext | None = None,
        principals: Principals | None = None,
        watchdog: Watchdog = UNWATCHED,
        on_closed: Callable[[str], object] = lambda connection: None,
        listen: Listen = listen_tcp,
    ) -> None:
        """`host` None: all interfaces. `port` 0: any free port. `principals`: the mapping of certificate subjects to
        principals.

        `on_closed` is called with the id of a connection that has closed (`Request.connection`).
        """
        self.name = name
        self.context = ListenerContext(name, handlers, log, security, watchdog, on_closed)
        """The state that all connections share."""
        self.settings = settings or ConnectionLimits()
        """The limits for new connections. They can be replaced while the listener runs."""
        self.refused_for_descriptors = 0
        """The number of connections refused because the remaining file descriptors are reserved for logs."""
        self._host = host
        self._port = port
        self._tls = tls
        self._principals = principals or Principals()
        self._listen = listen
        self._listeners: Sequence[trio.abc.Listener[Any]] = ()
        """One listener for each address of the host. Empty before `bind`."""
        self._listener = LimitedListener(name, log, self._limits, self._serve, self._refused)
        """A connection counts as half-open until its first request or, with SASL, until it is authenticated."""

    async def bind(self) -> int:
        """Listen, and return the port number. Connections are accepted by `run`."""
        self._listeners, port = await self._listen(self._host, self._port, f"listener {self.name}")
        return port

    async def aclose(self) -> None:
        """Close the listening sockets, even if `run` was never called."""
        with trio.CancelScope(shield=True):
            for listener in self._listeners:
                await listener.aclose()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            await self._listener.accept_from(self._listeners, nursery)

    def _limits(self) -> ListenerLimits:
        settings = self.settings
        return ListenerLimits(settings.connections_max, settings.connections_per_host_max, settings.descriptors_max)

    def _refused(self, limit: Limit, host: str, peer: str) -> None:
        log, name = self.context.log, self.name
        if limit is Limit.DESCRIPTORS:
            self.refused_for_descriptors += 1
            log.warn_rate_limited(
                "too_many_descriptors",
                name,
                listener=name,
                connections=self._listener.count,
                refused=self.refused_for_descriptors,
            )
        else:
            log.warn_rate_limited("too_many_connections", host, listener=name, peer=peer)

    async def _serve(self, accepted: Accepted) -> None:
        """Serve one connection. Its errors do not stop the listener."""
        stream, host, peer = accepted.stream, accepted.host, accepted.peer
        log, name = self.context.log, self.name
        try:
            with accepted.half_open() as wait:
                secured = await self._handshake(stream, host, peer)
                if secured is not None:
                    secure, principal = secured
                    shell = ConnectionShell(self.context, self.settings, secure, host, peer, principal, wait.shown)
                    await shell.run()
            if wait.dropped:
                log.warn_rate_limited("silent_client_dropped", host, listener=name, peer=peer)
                await trio.aclose_forcefully(stream)
        except Exception as error:
            log.failed("connection_failed", error, listener=name, peer=peer)
            await trio.aclose_forcefully(stream)

    async def _handshake(self, stream: trio.SocketStream, host: str, peer: str) -> tuple[trio.abc.Stream, str] | None:
        """Return the stream, with TLS if the listener uses it, and the principal of the client's certificate. Return
        None if the handshake failed."""
        if self._tls is None:
            return stream, ANONYMOUS
        try:
            with trio.fail_after(self.settings.handshake_s):
                return await accept_tls(stream, self._tls, self._principals)
        except (trio.BrokenResourceError, trio.TooSlowError, ssl.SSLError, NoPrincipal) as error:
            why = error.__cause__ or repr(error)
            self.context.log.warn_rate_limited("tls_handshake_failed", host, listener=self.name, peer=peer, why=why)
            await trio.aclose_forcefully(stream)
            return None
