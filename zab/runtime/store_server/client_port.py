"""The client port. All client ports share their limits: of connections, of those per host, and of open descriptors."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from zab.host.process_tuning import open_files_limit
from zab.net.cannot_listen import CannotListen, cannot_listen
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits
from zab.runtime.store_server.connection_shell import ConnectionShell

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime
    from zab.runtime.store_server.tls_acceptor import TlsAcceptor


class ClientPort:
    """Accepts the connections of clients at one port, and runs a shell for each.

    A port for TLS, or for TLS and plain connections, has a TLS acceptor, which each of its connections passes first.
    """

    def __init__(
        self, server: ServerRuntime, host: str | None, port: int, tls_acceptor: TlsAcceptor | None = None
    ) -> None:
        """`host` is the address to listen on; None: all interfaces."""
        self._server = server
        self._tls_acceptor = tls_acceptor
        self._host = host
        self._port = port
        self._listener = LimitedListener(
            "client", server.log, self._limits, self._serve, self._refused, counts=server.client_connections
        )
        """A connection is half-open until its TLS handshake is done and its first frame has arrived."""
        self._listening = trio.CancelScope()
        self._closed = trio.Event()

    async def run(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled. `task_status` is started with the port's number.

        The system chooses the number if the given one is 0. Raise `CannotListen` if the port cannot be opened.
        """
        async with trio.open_nursery() as nursery:
            task_status.started(await self._listen(nursery))
            await trio.sleep_forever()

    async def run_and_move(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept until cancelled, like `run`, and move to each new address that the membership gives.

        Open connections stay. If a new address cannot be used, log an error and stay at the old one.
        """
        server = self._server
        async with trio.open_nursery() as nursery:
            self._port = await self._listen(nursery)
            task_status.started(self._port)
            while True:
                host, port = await server.membership.address_moved()
                if port == self._port and await meant(host) == await meant(self._host):
                    continue  # the same address, written differently
                await self._move(nursery, host, port)
                server.ports.client = self._port

    async def _move(self, nursery: trio.Nursery, host: str | None, port: int) -> None:
        server, before, old_port = self._server, self._host, self._port
        self._host, self._port = host, port
        try:
            try:
                self._port = await self._listen(nursery)
            except CannotListen as error:
                if port != old_port or getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
                    raise
                # The old listener may hold the port: if it listens on all addresses, no single one is free.
                self._listening.cancel()
                await self._closed.wait()
                self._port = await self._listen(nursery)
        except CannotListen as error:
            # Keep the connected clients. The port may be free at the next change, or at the next start.
            self._host, self._port = before, old_port
            if self._closed.is_set():
                await self._listen(nursery)
            server.log.say("client_port_not_moved", "error", stays=f"{before or '*'}:{old_port}", why=error)
        else:
            server.log.say("client_port_moved", clients=f"{host or '*'}:{port}")

    async def _listen(self, nursery: trio.Nursery) -> int:
        listeners, port = await _listen_for_clients(self._server, self._host, self._port)
        self._listening.cancel()
        self._listening, self._closed = trio.CancelScope(), trio.Event()
        nursery.start_soon(self._accept, listeners, nursery, self._listening, self._closed)
        return port

    async def _accept(
        self,
        listeners: Sequence[trio.abc.Listener[Any]],
        nursery: trio.Nursery,
        scope: trio.CancelScope,
        closed: trio.Event,
    ) -> None:
        with scope:
            await self._listener.accept_from(listeners, nursery)
        closed.set()

    def _limits(self) -> ListenerLimits:
        settings, limit = self._server.settings, open_files_limit()
        return ListenerLimits(
            settings.connections_max,
            settings.connections_per_host_max or None,
            descriptors_max=limit - min(settings.descriptors_kept, limit // 2),
        )

    def _refused(self, limit: Limit, host: str, peer: str) -> None:
        server = self._server
        if limit is Limit.DESCRIPTORS:
            server.log.warn_rate_limited(
                "too_many_descriptors", "", limit=open_files_limit(), connections=self._listener.count
            )
        else:
            server.log.warn_rate_limited("too_many_clients", host, peer=peer)
        server.clients.counts.connection_rejected += 1

    async def _serve(self, accepted: Accepted) -> None:
        server, stream, host, peer = self._server, accepted.stream, accepted.host, accepted.peer
        with accepted.half_open() as wait:
            admitted = (
                (stream, []) if self._tls_acceptor is None else await self._tls_acceptor.admit(stream, host, peer)
            )
            if admitted is None:
                await trio.aclose_forcefully(stream)
            else:
                spoken, proved = admitted
                await ConnectionShell(server, spoken, host, peer, proved, wait.shown).run()
        if wait.dropped:
            server.log.warn_rate_limited("silent_client_dropped", host, peer=peer)
            await trio.aclose_forcefully(stream)


async def _listen_for_clients(
    server: ServerRuntime, host: str | None, port: int
) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
    try:
        return await server.member.environment.listen(host, port)
    except OSError as error:
        raise cannot_listen(host, port, "clients", error) from error


async def check_client_port(server: ServerRuntime, host: str | None, port: int) -> None:
    """Raise `CannotListen` if this server cannot listen at this address."""
    listeners, _ = await _listen_for_clients(server, host, port)
    for listener in listeners:
        await listener.aclose()


async def meant(host: str | None) -> frozenset[str]:
    """Return the addresses that a host name stands for, for comparison. None stands for all interfaces."""
    if host is None:
        return frozenset({"0.0.0.0"})
    try:
        found = await trio.socket.getaddrinfo(host, None, type=trio.socket.SOCK_STREAM)
    except OSError:  # `listen` will report it
        return frozenset({host})
    return frozenset(str(address[0]) for *_, address in found)
