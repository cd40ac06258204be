"""A client of brokers, as small as our own commands need it: connections, versions, who leads what, whom to ask again.

    async with connect([("127.0.0.1", 9092)]) as client:
        metadata = await client.ask(METADATA, MetadataRequest(topics=None))
        request = DescribeGroupsRequest(["my-group"])
        described = await client.ask_coordinator("my-group", DESCRIBE_GROUPS, request, error_of)

`replica.wire.schemas` declares the bodies. A connection sends the next request after the response to the one before.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.authentication.sasl_authenticator import Identity, log_in
from replica.runtime.network.tls_handshake import dial
from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.framing import Framing
from replica.wire.messages import decode_response, encode_request
from replica.wire.schemas.cluster_schemas import (
    API_VERSIONS,
    METADATA,
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replica.wire.schemas.group_schemas import FIND_COORDINATOR, FindCoordinatorRequest

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")
Address = tuple[str, int]

RECEIVE_BYTES: Final = 256 * 1024
PAUSE_S: Final = 0.1
WAITS_FOR_OTHERS_S: Final = {ApiKey.JOIN_GROUP: 300.0, ApiKey.SYNC_GROUP: 300.0}
"""Added to `request_s` where the answer waits for other members of a group: Kafka's `max.poll.interval.ms`."""
RENEWED: Final = 0.85
"""So much of the time for which a login counts may pass before it is proved anew; Kafka's clients begin there, too."""
HUNG_UP: Final = "the broker ended the connection"
NO_CERTIFICATE: Final = "it wants a certificate of who dials, and was shown none that it believes"
_WANTS_CERTIFICATE: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
"""What it says when it hangs up, in the words of the library."""


class Unreachable(Exception):
    """No broker could be asked, or none answered in time. The message says which, and what was wrong with each."""


@frozen
class ClientSettings:
    """request_s    for one connection to be made, or one request to be answered
    patience_s   for what is to be tried again: a leader or coordinator that is being elected, say
    reply_bytes_max  a longer one is taken for damage
    """

    client_id: str = "zab-broker"
    request_s: float = 30.0
    patience_s: float = 30.0
    reply_bytes_max: int = 256 * 1024 * 1024


# -- one connection ----------------------------------------------------------------------------------------


class BrokerConnection:
    def __init__(self, stream: trio.abc.Stream, settings: ClientSettings) -> None:
        self.stream = stream
        self._settings = settings
        self._framing = Framing(settings.reply_bytes_max)
        self._frames: list[bytes] = []
        self._turn = trio.Lock()
        self._correlation = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        self._identity: Identity | None = None
        self._renewed_at = math.inf
        self.broken = False

    async def ask(self, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """In the newest version that both speak, up to `version_max`."""
        async with self._turn:
            if self._identity is not None and trio.current_time() >= self._renewed_at:
                await self._log_in(self._identity)
            if self._versions is None:
                said = await self._exchange(API_VERSIONS, 0, ApiVersionsRequest())
                self._versions = {each.api_key: (each.min_version, each.max_version) for each in said.api_keys}
            return await self._exchange(api, self._version(api, version_max), body)

    async def log_in(self, identity: Identity) -> None:
        """Before anything else is asked. `KafkaError` if it is not believed. Where that counts for a while only it is
        done again in time, so that nothing that is asked then is cut off."""
        async with self._turn:
            await self._log_in(identity)

    async def _log_in(self, identity: Identity) -> None:
        began = trio.current_time()
        try:
            lifetime_ms = await log_in(identity, self._exchange)
        except KafkaError:
            self.broken = True
            raise
        self._identity = identity
        self._renewed_at = began + lifetime_ms / 1000 * RENEWED if lifetime_ms > 0 else math.inf

    def _version(self, ours: Api[Any, Any], version_max: int | None) -> int:
        assert self._versions is not None
        first, last = self._versions.get(ours.key, (0, -1))
        version = min(last, ours.last if version_max is None else min(ours.last, version_max))
        if version < max(first, ours.first):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{ours.key.name}: versions {first} to {last} of the broker, {ours.first} to {ours.last} of this client"
                if last >= 0
                else f"the broker does not know {ours.key.name}",
            )
        return version

    async def _exchange(self, api: Api[Q, R], version: int, body: Q) -> R:
        self._correlation += 1
        request = encode_request(api, version, self._correlation, self._settings.client_id, body)
        patience_s = self._settings.request_s + WAITS_FOR_OTHERS_S.get(api.key, 0)
        try:
            with trio.fail_after(patience_s):
                await self.stream.send_all(request)
                while not self._frames:
                    data = await self.stream.receive_some(RECEIVE_BYTES)
                    if not data:
                        raise Unreachable(HUNG_UP)
                    self._frames = self._framing.feed(data)
        except trio.TooSlowError:
            self.broken = True
            raise Unreachable(f"{api.key.name} was not answered within {patience_s} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            self.broken = True
            raise _broken(error, "the connection broke: ") from error
        except BaseException:  # its answer may come while the next one is waited for
            self.broken = True
            raise
        correlation, reply = decode_response(api, version, self._frames.pop(0))
        if correlation != self._correlation:
            self.broken = True
            raise WireError(f"an answer to request {correlation}, where {self._correlation} was asked")
        return reply

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


# -- the cluster -------------------------------------------------------------------------------------------


class Client:
    """addresses of brokers, and connections to those that were asked. Learns where all of them are from any."""

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
        self._connections: dict[Address, BrokerConnection] = {}
        self._connecting = trio.Lock()
        self._closed = False

    # -- asking ------------------------------------------------------------------------------------------------

    async def ask(self, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """Whichever broker can be reached."""
        wrong = []
        for address in dict.fromkeys((*self._connections, *self._brokers.values(), *self._bootstrap)):
            try:
                return await self._ask_at(address, api, body, version_max)
            except Unreachable as error:
                wrong.append(f"{address[0]}:{address[1]}: {error}")
        raise Unreachable("; ".join(wrong) or "no broker is known")

    async def ask_broker(self, broker: int, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """This one and no other."""
        if broker not in self._brokers:
            await self.metadata([])
        if broker not in self._brokers:
            raise Unreachable(f"broker {broker} is not there; there are {sorted(self._brokers)}")
        return await self._ask_at(self._brokers[broker], api, body, version_max)

    async def ask_coordinator(
        self, group: str, api: Api[Q, R], body: Q, error_of: Callable[[R], int], version_max: int | None = None
    ) -> R:
        """Whoever coordinates the group, found anew for as long as it moves. `error_of`: the reply's error, or 0."""

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
        """Again while what is wrong may pass: nobody leads yet, somebody else does, a broker is gone."""
        began = trio.current_time()
        pause = PAUSE_S
        while True:
            try:
                return await act()
            except (KafkaError, Unreachable) as error:
                passes = isinstance(error, Unreachable) or error.code.retriable
                if not passes or trio.current_time() + pause - began > self.settings.patience_s:
                    raise
            await trio.sleep(pause)
            pause = min(pause * 2, 2.0)

    # -- what there is -------------------------------------------------------------------------------------------

    async def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Of these topics; None: of all. Topics are not made by being asked for."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        reply = await self.ask(METADATA, MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        self._brokers = {each.node_id: (each.host, each.port) for each in reply.brokers}
        return reply

    @property
    def brokers(self) -> list[int]:
        """As of the last metadata."""
        return sorted(self._brokers)

    async def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Of the partitions of these topics. What is not there, and what nobody leads, is left out."""
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
        async with self._connecting:
            connection = self._connections.get(address)
            if connection is None:
                self._must_be_open()
                connection = BrokerConnection(await self._dial(address), self.settings)
                try:
                    if self._identity is not None:
                        await connection.log_in(self._identity)
                    self._must_be_open()
                except BaseException:
                    await connection.aclose()
                    raise
                self._connections[address] = connection
            return connection

    def _must_be_open(self) -> None:
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
            raise _broken(error) from error

    async def aclose(self) -> None:
        """Whoever still asks is told that it is, and nothing is dialled any more."""
        self._closed = True
        connections, self._connections = list(self._connections.values()), {}
        with trio.CancelScope(shield=True):
            for connection in connections:
                await connection.aclose()


def _broken(error: BaseException, before: str = "") -> Unreachable:
    """What TLS has to say is told for whoever does not know its library."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return Unreachable(HUNG_UP)
    reason = (cause.reason or "").upper() if isinstance(cause, ssl.SSLError) else ""
    if any(word in reason for word in _WANTS_CERTIFICATE):
        return Unreachable(f"{NO_CERTIFICATE} ({reason})")
    return Unreachable(f"{before}{_why(error)}")


def _why(error: BaseException) -> str:
    """A host may have several addresses, and each of them says for itself what is wrong."""
    cause = error.__cause__ or error
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(str(each) for each in cause.exceptions))
    return str(cause)


@asynccontextmanager
async def connect(
    bootstrap: Sequence[Address],
    settings: ClientSettings | None = None,
    tls: ssl.SSLContext | None = None,
    identity: Identity | None = None,
) -> AsyncIterator[Client]:
    """Nothing is dialled before something is asked."""
    client = Client(bootstrap, settings, tls, identity)
    try:
        yield client
    finally:
        await client.aclose()


def raise_for(code: int, what: str, text: str | None = None) -> None:
    """`KafkaError` unless the number says that nothing is wrong."""
    if code:
        try:
            error = ErrorCode(code)
        except ValueError:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: error {code}, which is not known here") from None
        raise KafkaError(error, f"{what}: {text}" if text else what)


def parse_bootstrap(text: str) -> list[Address]:
    """`host:port,host:port`; IPv6 in brackets. `ValueError` says what is wrong."""
    addresses = []
    for each in text.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{each.strip()!r} is no host:port")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses
