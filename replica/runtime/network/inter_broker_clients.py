"""Connections of this broker to the inter-broker and control plane listeners of other brokers."""

from __future__ import annotations

import ssl

import trio
from attrs import field, frozen

from kraft_controller.core.state import Endpoint
from replica.core.errors import KafkaError, WireError
from replica.runtime.configuration.broker_config import Peers
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings, Unreachable
from replica.runtime.network.tls_handshake import dial
from replica.runtime.network.transport import Connect, connect_tcp
from zab.core.addresses import with_port


@frozen
class InterBrokerClients:
    """Connects to other brokers, with this broker's TLS context and identity."""

    peers: Peers = field(factory=Peers)
    connect: Connect = connect_tcp

    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> BrokerConnection:
        """Return an authenticated connection. Raise `KafkaError`, `Unreachable`, `WireError`, `OSError` or
        `trio.BrokenResourceError`."""
        connection = BrokerConnection(await dial(*address, self.peers.tls, self.connect), settings)
        try:
            if self.peers.identity is not None:
                await connection.log_in(self.peers.identity)
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        return connection

    async def stream(self, endpoint: Endpoint, _: ssl.SSLContext | None = None) -> trio.abc.Stream:
        """A `Dial`: return an authenticated stream for the controller's commands. Raise `OSError` if there is none."""
        try:
            connection = await self.connection((endpoint.host, endpoint.port), ClientSettings("controller"))
        except (KafkaError, Unreachable, WireError, ssl.SSLError, trio.BrokenResourceError) as error:
            why = str(error) or str(error.__cause__ or "the connection broke")
            raise OSError(f"{with_port(endpoint.host, endpoint.port)}: {why}") from error
        return connection.stream
