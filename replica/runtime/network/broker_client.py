"""A client of a cluster, for this project's commands and for brokers.

    async with connect([("127.0.0.1", 9092)]) as client:
        metadata = await client.ask(METADATA, MetadataRequest(topics=None))
        request = DescribeGroupsRequest(["my-group"])
        described = await client.ask_coordinator("my-group", DESCRIBE_GROUPS, request, error_of)

`replica.wire.schemas` declares the bodies. A connection has at most one request in flight.
"""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from kraft_controller.core.names import TopicPartition
from replica.core.errors import KafkaError
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.network.broker_connection import (
    CLOSED_BY_BROKER,
    BrokerConnection,
    CannotConnect,
    ClientSettings,
    Unreachable,
    raise_for,
    unreachable,
)
from replica.runtime.network.tls_handshake import dial
from replica.wire.fields import Api
from replica.wire.schemas.cluster_schemas import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from replica.wire.schemas.group_schemas import FIND_COORDINATOR, FindCoordinatorRequest
from zab.core.addresses import with_port

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
Address = tuple[str, int]

PAUSE_S: Final = 0.1


class Client:
    """A client of a cluster. It learns the addresses of all brokers from any of them."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        settings: ClientSettings | None = None,
        tls: ssl.SSLContext | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.settings = settings or ClientSettings()
        self._bootstrap = tuple(bootstrap)
        self._tls = tls
        self._identity = identity
        self._brokers: dict[int, Address] = {}
        """The brokers in the newest Metadata response, and coordinators found since."""
        self._connections: dict[Address, BrokerConnection] = {}
        self._connecting: defaultdict[Address, trio.Lock] = defaultdict(trio.Lock)
        """Held while connecting to an address, so that concurrent callers open only one connection to a broker."""
        self._closed = False

    # -- requests ----------------------------------------------------------------------------------------------

    async def ask(self, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """Send a request to the first broker that can be reached. Raise `Unreachable` if none can."""
        failures = []
        for address in dict.fromkeys((*self._connections, *self._brokers.values(), *self._bootstrap)):
            try:
                return await self._ask_at(address, api, body, version_max)
            except Unreachable as error:
                known = isinstance(error, CannotConnect)
                failures.append(str(error) if known else f"{with_port(*address)}: {error}")
        raise Unreachable("; ".join(failures) or "no broker address is known")

    async def ask_broker(self, broker: int, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """Send a request to one broker."""
        if broker not in self._brokers:
            await self.metadata([])
        if broker not in self._brokers:
            raise Unreachable(f"broker {broker} is not registered; registered: {sorted(self._brokers)}")
        return await self._ask_at(self._brokers[broker], api, body, version_max)

    async def ask_coordinator(
        self, group: str, api: Api[Q, R], body: Q, error_of: Callable[[R], int], version_max: int | None = None
    ) -> R:
        """Send a request to the coordinator of a group. Retry as `patiently` does, for example if the coordinator has
        moved. `error_of` returns a response's error code."""

        async def once() -> R:
            reply = await self.ask_broker(await self.coordinator(group), api, body, version_max)
            raise_for(error_of(reply), f"group {group}: {api.key.name}")
            return reply

        return await self.patiently(once)

    async def coordinator(self, group: str) -> int:
        found = await self.ask(FIND_COORDINATOR, FindCoordinatorRequest(key=group, key_type=0), version_max=3)
        raise_for(found.error_code, f"the coordinator of group {group}", found.error_message)
        node = found.node_id
        self._brokers[node] = (found.host, found.port)
        return node

    async def patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Call `act`. Retry temporary errors for up to `patience_s`, for example while a leader is elected or a broker
        cannot be reached."""
        began = trio.current_time()
        pause = PAUSE_S
        while True:
            try:
                return await act()
            except (KafkaError, Unreachable) as error:
                retriable = isinstance(error, Unreachable) or error.code.retriable
                if not retriable or trio.current_time() + pause - began > self.settings.patience_s:
                    raise
                self.settings.on_retry(error, trio.current_time() - began)
            await trio.sleep(pause)
            pause = min(pause * 2, 2.0)

    # -- metadata -----------------------------------------------------------------------------------------------

    async def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Return the metadata of these topics, or of all if None. The request does not create topics."""
        requested = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        reply = await self.ask(METADATA, MetadataRequest(topics=requested, allow_auto_topic_creation=False))
        self._brokers = {each.node_id: (each.host, each.port) for each in reply.brokers}
        return reply

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers in the newest Metadata response, and of coordinators found since."""
        return sorted(self._brokers)

    async def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the leaders of the partitions of these topics. Partitions without a leader are left out."""
        reply = await self.metadata(topics)
        return {
            TopicPartition(topic.name or "", each.partition_index): each.leader_id
            for topic in reply.topics
            for each in topic.partitions
            if each.leader_id >= 0
        }

    # -- connections -----------------------------------------------------------------------------------------------

    async def _ask_at(self, address: Address, api: Api[Q, R], body: Q, version_max: int | None) -> R:
        connection = await self._connected(address)
        try:
            return await connection.ask(api, body, version_max)
        finally:
            if connection.broken:
                if self._connections.get(address) is connection:
                    del self._connections[address]
                await connection.aclose()

    async def _connected(self, address: Address) -> BrokerConnection:
        async with self._connecting[address]:
            connection = self._connections.get(address)
            if connection is None:
                self._check_open()
                connection = BrokerConnection(await self._dial(address), self.settings)
                try:
                    if self._identity is not None:
                        await connection.log_in(self._identity)
                    self._check_open()
                except BaseException:
                    await connection.aclose()
                    raise
                self._connections[address] = connection
            return connection

    def _check_open(self) -> None:
        if self._closed:
            raise Unreachable("this client is closed")

    async def _dial(self, address: Address) -> trio.abc.Stream:
        host, port = address
        try:
            with trio.fail_after(self.settings.request_s):
                return await dial(host, port, self._tls)
        except trio.TooSlowError:
            raise Unreachable(f"no connection within {self.settings.request_s} s") from None
        except (OSError, trio.BrokenResourceError) as error:
            made = unreachable(error)
            if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and str(made) != CLOSED_BY_BROKER:
                made = CannotConnect(f"cannot connect to {with_port(host, port)}: {made}")
            raise made from error

    async def aclose(self) -> None:
        """Close all connections. Pending and later requests raise `Unreachable`."""
        self._closed = True
        connections, self._connections = list(self._connections.values()), {}
        with trio.CancelScope(shield=True):
            for connection in connections:
                await connection.aclose()


@asynccontextmanager
async def connect(
    bootstrap: Sequence[Address],
    settings: ClientSettings | None = None,
    tls: ssl.SSLContext | None = None,
    identity: Identity | None = None,
) -> AsyncIterator[Client]:
    """Return a client, which the end of the block closes. It connects at its first request."""
    client = Client(bootstrap, settings, tls, identity)
    try:
        yield client
    finally:
        await client.aclose()


def parse_bootstrap(text: str) -> list[Address]:
    """Parse `host:port,host:port`, with IPv6 addresses in brackets. Raise `ValueError` if it is malformed."""
    addresses = []
    for each in text.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{each.strip()!r} is not of the form host:port")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses
