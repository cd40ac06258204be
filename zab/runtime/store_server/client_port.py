"""The client port. All client ports share their limits: of connections, of those per host, and of open descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from zab.core.addresses import with_port
from zab.host.process_tuning import open_files_limit
from zab.net.cannot_listen import CannotListen, cannot_listen
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits, MovablePort
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
        self._address = (host, port)
        """The first address."""
        self._listener = LimitedListener(
            "client", server.log, self._limits, self._serve, self._refused, counts=server.client_connections
        )
        """A connection is half-open until its TLS handshake is done and its first frame has arrived."""
        self._port = MovablePort(self._listener, partial(_listen_for_clients, server))

    async def run(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED, *, moves: bool = False) -> None:
        """Accept until cancelled. `task_status` is started with the port's number.

        The system chooses the number if the given one is 0. Raise `CannotListen` if the port cannot be opened. With
        `moves`, move to each new address that the membership gives. If a new address cannot be used, log an error and
        stay at the old one: the connected clients stay, and the port may be free at the next change or start.
        """
        server, port = self._server, self._port
        async with trio.open_nursery() as nursery:
            await port.bind(nursery, *self._address)
            assert port.bound is not None
            task_status.started(port.bound[1])
            while moves:
                host, number = await server.membership.address_moved()
                if number == port.bound[1] and await meant(host) == await meant(port.bound[0]):
                    continue  # the same address, written differently
                try:
                    await port.bind(nursery, host, number)
                except CannotListen as error:
                    stays = with_port(port.bound[0] or "*", port.bound[1])
                    server.log.say("client_port_not_moved", "error", stays=stays, why=error)
                else:
                    server.log.say("client_port_moved", clients=with_port(host or "*", port.bound[1]))
                    server.ports.client = port.bound[1]
            await trio.sleep_forever()

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
