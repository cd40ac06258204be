"""Brokers among themselves: how one dials another, and who is let in where controllers command.

What a controller says moves partitions and deletes logs, so its listener is as closed as the one by which brokers
fetch: TLS and login as there, and behind them the question whether who came may do what only brokers do.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import field, frozen

from kraft_controller.core.state import Endpoint
from replica.core.errors import KafkaError, WireError
from replica.core.principals import NoPrincipal
from replica.runtime.authentication.listener_security import Authenticator, ListenerSecurity
from replica.runtime.config import Listener, Peers
from replica.runtime.logs import Log
from replica.runtime.network.broker_client import BrokerConnection, ClientSettings, Unreachable
from replica.runtime.network.connection_limits import ConnectionLimits
from replica.runtime.network.tls_handshake import accept_tls, dial
from replica.runtime.requests import ANONYMOUS, ApiKey, Request
from replica.wire.framing import Framing
from replica.wire.messages import decode_request, encode_response
from replica.wire.schemas import APIS
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits

UNKNOWN_MAX: Final = 64
"""Who has not said yet who he is. One more waits for one of them to be done, which takes `handshake_s` at most."""
QUEUED_MAX: Final = 64
"""Who waits for that, and no longer than `handshake_s`. One more is hung up on: a controller dials again."""


class _ReportingStream(trio.abc.Stream):
    """A stream that reports, once its other end is authenticated, when the first data arrives on it."""

    def __init__(self, stream: trio.abc.Stream, spoke: Callable[[], None]) -> None:
        self._there = stream
        self._spoke = spoke

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._there.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._there.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._there.receive_some(max_bytes)
        if data:
            self._spoke()
        return data

    async def aclose(self) -> None:
        await self._there.aclose()


@frozen
class InterBrokerClients:
    """Dials others."""

    peers: Peers = field(factory=Peers)

    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> BrokerConnection:
        """Of Kafka's protocol. `KafkaError`, `Unreachable`, `WireError` or `OSError` where there is none to be had."""
        connection = BrokerConnection(await dial(*address, self.peers.tls), settings)
        try:
            if self.peers.identity is not None:
                await connection.log_in(self.peers.identity)
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        return connection

    async def stream(self, endpoint: Endpoint, _: ssl.SSLContext | None = None) -> trio.abc.Stream:
        """For the words of controllers, as a `Dial`: they begin when it is known who is at both ends."""
        try:
            connection = await self.connection((endpoint.host, endpoint.port), ClientSettings("controller"))
        except (KafkaError, Unreachable, WireError, ssl.SSLError, trio.BrokenResourceError) as error:
            why = str(error) or str(error.__cause__ or "the connection broke")
            raise OSError(f"{endpoint.host}:{endpoint.port}: {why}") from error
        return connection.stream


class ControlPlaneListener:
    """A listener for controllers.

    serve    has the connection from when it is known who is at its other end
    trusts   whether somebody, from a host, may do what only brokers do
    ready    waits until it can be told who somebody is
    """

    def __init__(
        self,
        listener: Listener,
        security: ListenerSecurity,
        settings: ConnectionLimits,
        serve: Callable[[trio.abc.Stream], Awaitable[None]],
        trusts: Callable[[str, str], bool],
        log: Log,
        ready: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._listener = listener
        self._security = security
        self._settings = settings
        self._serve = serve
        self._trusts = trusts
        self._log = log
        self._ready = ready
        self._unknown = trio.CapacityLimiter(UNKNOWN_MAX)
        limits = ListenerLimits(connections_max=settings.controllers_max)
        self._accepting = LimitedListener(listener.name, log, lambda: limits, self._hear, self._refused)
        """A connection is half-open until a controller has sent something: it does so as soon as it is let in."""

    async def run(self, listeners: Sequence[trio.SocketListener], nursery: trio.Nursery) -> None:
        """Accept until cancelled."""
        await self._accepting.accept_from(listeners, nursery)

    def _refused(self, limit: Limit, host: str, peer: str) -> None:
        self._log.warn_rate_limited("too_many_connections", "", listener=self._listener.name)

    async def _hear(self, accepted: Accepted) -> None:
        try:
            with accepted.half_open() as wait:
                await self._heard(accepted.stream, accepted.host, wait.shown)
        finally:
            await trio.aclose_forcefully(accepted.stream)

    async def _heard(self, stream: trio.SocketStream, host: str, spoke: Callable[[], None]) -> None:
        try:
            async with self._one_of_few():
                with trio.fail_after(self._settings.handshake_s):
                    await self._ready()
                    known, principal = await self._known(stream, host)
            if not self._trusts(principal, host):
                raise NoPrincipal(f"{principal} may not do what brokers do: it needs ClusterAction on the cluster")
        except (
            trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, ssl.SSLError, WireError, NoPrincipal,
        ) as error:  # fmt: skip
            why = error.__cause__ or str(error) or repr(error)
            self._log.warn_rate_limited("controller_not_heard", host, listener=self._listener.name, peer=host, why=why)
            await trio.aclose_forcefully(stream)
            return
        except Exception as error:
            self._log.failed("controller_not_heard", error, listener=self._listener.name, peer=host)
            await trio.aclose_forcefully(stream)
            return
        await self._serve(_ReportingStream(known, spoke))

    @asynccontextmanager
    async def _one_of_few(self) -> AsyncIterator[None]:
        if self._unknown.statistics().tasks_waiting >= QUEUED_MAX:
            raise NoPrincipal(f"{UNKNOWN_MAX + QUEUED_MAX} others have not said yet who they are")
        with trio.fail_after(self._settings.handshake_s):
            await self._unknown.acquire()
        try:
            yield
        finally:
            self._unknown.release()

    async def _known(self, stream: trio.SocketStream, host: str) -> tuple[trio.abc.Stream, str]:
        listener = self._listener
        known: trio.abc.Stream = stream
        principal = ANONYMOUS
        if listener.tls is not None:
            known, principal = await accept_tls(stream, listener.tls, listener.principals)
        login = self._security.login(host)
        return known, principal if login is None else await self._logged_in(known, login, host)

    async def _logged_in(self, stream: trio.abc.Stream, login: Authenticator, host: str) -> str:
        framing = Framing(self._settings.first_request_bytes_max)
        while not login.done:
            data = await stream.receive_some()
            if not data:
                raise NoPrincipal("it hung up before it had said who it is")
            for frame in framing.feed(data):
                await stream.send_all(await self._answered(frame, login, host))
                if login.failed is not None:
                    raise NoPrincipal(login.failed)
        return login.principal

    async def _answered(self, frame: bytes, login: Authenticator, host: str) -> bytes:
        if login.raw:
            return await login.raw_token(frame)
        asked = decode_request(frame)
        if asked.api not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            raise NoPrincipal(f"{asked.api.name}, where it has to say who it is")
        request = Request(
            asked.api, asked.version, asked.correlation, asked.client_id, asked.body, self._listener.name, host=host
        )
        reply = await login.answer(request)
        return b"" if reply is None else encode_response(APIS[asked.api], asked.version, asked.correlation, reply)
