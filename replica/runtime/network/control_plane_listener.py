"""The control plane listener, where a broker accepts the controller's commands.

Commands move partitions and delete logs. So the listener has the TLS and SASL settings of the inter-broker listener,
unless it has its own, and with an authorizer it requires a principal that is authorized for ClusterAction.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from replica.core.errors import WireError
from replica.core.network.connection_limits import ConnectionLimits
from replica.core.security.principals import NoPrincipal
from replica.runtime.authentication.listener_security import Authenticator, ListenerSecurity
from replica.runtime.configuration.broker_config import Listener
from replica.runtime.logs import Log
from replica.runtime.network.tls_handshake import accept_tls
from replica.runtime.requests import ANONYMOUS, ApiKey, Request
from replica.wire.framing import Framing
from replica.wire.messages import decode_request, encode_response, read_head
from replica.wire.schemas import APIS
from zab.host.clocks import now_ms
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits

AUTHENTICATING_MAX: Final = 64
"""The maximum number of connections that authenticate concurrently, each for at most `handshake_s`."""
QUEUED_MAX: Final = 64
"""The maximum number of connections that wait to authenticate, for at most `handshake_s`. Further ones are closed;
controllers reconnect."""


class _ReportingStream(trio.abc.Stream):
    """A stream that calls a function whenever data arrives."""

    def __init__(self, stream: trio.abc.Stream, on_data: Callable[[], None]) -> None:
        self._stream = stream
        self._on_data = on_data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        if data:
            self._on_data()
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()


class ControlPlaneListener:
    """Accepts connections of controllers, and passes each authorized one to `serve`, with its host."""

    def __init__(
        self,
        listener: Listener,
        security: ListenerSecurity,
        settings: ConnectionLimits,
        serve: Callable[[trio.abc.Stream, str], Awaitable[None]],
        trusts: Callable[[str, str], bool],
        log: Log,
        ready: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._listener = listener
        self._security = security
        self._settings = settings
        self._serve = serve
        self._trusts = trusts
        """Returns whether a principal at a host is authorized."""
        self._log = log
        self._ready = ready
        """Waits until the broker can authenticate controllers and execute their commands."""
        self._authenticating = trio.CapacityLimiter(AUTHENTICATING_MAX)
        limits = ListenerLimits(connections_max=settings.controllers_max)
        self._accepting = LimitedListener(listener.name, log, lambda: limits, self._serve_accepted, self._refused)
        """A connection counts as half-open until the controller has sent data after its authentication."""

    async def run(self, listeners: Sequence[trio.abc.Listener[Any]], nursery: trio.Nursery) -> None:
        """Accept until cancelled."""
        await self._accepting.accept_from(listeners, nursery)

    def _refused(self, limit: Limit, host: str, peer: str) -> None:
        self._log.warn_rate_limited("too_many_connections", "", listener=self._listener.name)

    async def _serve_accepted(self, accepted: Accepted) -> None:
        try:
            with accepted.half_open() as wait:
                stream = await self._authorized(accepted.stream, accepted.host)
                if stream is not None:
                    await self._serve(_ReportingStream(stream, wait.shown), accepted.host)
        finally:
            await trio.aclose_forcefully(accepted.stream)

    async def _authorized(self, stream: trio.SocketStream, host: str) -> trio.abc.Stream | None:
        """Return the stream of an authorized controller; None, after logging the reason, if it is refused."""
        try:
            async with self._authentication_slot():
                with trio.fail_after(self._settings.handshake_s):
                    await self._ready()
                    secure, principal = await self._authenticate(stream, host)
            if not self._trusts(principal, host):
                raise NoPrincipal(f"{principal} lacks the permission ClusterAction on the cluster")
        except (
            trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, ssl.SSLError, WireError, NoPrincipal,
        ) as error:  # fmt: skip
            why = error.__cause__ or str(error) or repr(error)
            self._log.warn_rate_limited("controller_rejected", host, listener=self._listener.name, peer=host, why=why)
            return None
        except Exception as error:
            self._log.failed("controller_rejected", error, listener=self._listener.name, peer=host)
            return None
        return secure

    @asynccontextmanager
    async def _authentication_slot(self) -> AsyncIterator[None]:
        if self._authenticating.statistics().tasks_waiting >= QUEUED_MAX:
            raise NoPrincipal(
                f"{AUTHENTICATING_MAX + QUEUED_MAX} other connections are not authenticated yet, which is the limit"
            )
        with trio.fail_after(self._settings.handshake_s):
            await self._authenticating.acquire()
        try:
            yield
        finally:
            self._authenticating.release()

    async def _authenticate(self, stream: trio.SocketStream, host: str) -> tuple[trio.abc.Stream, str]:
        listener = self._listener
        secure: trio.abc.Stream = stream
        principal = ANONYMOUS
        if listener.tls is not None:
            secure, principal = await accept_tls(stream, listener.tls, listener.principals)
        authenticator = self._security.authenticator(host)
        return secure, principal if authenticator is None else await self._log_in(secure, authenticator, host)

    async def _log_in(self, stream: trio.abc.Stream, authenticator: Authenticator, host: str) -> str:
        framing = Framing(self._settings.first_request_bytes_max)
        while not authenticator.done:
            data = await stream.receive_some()
            if not data:
                raise NoPrincipal("the controller closed the connection before it was authenticated")
            for frame in framing.feed(data):
                await stream.send_all(await self._answer(frame, authenticator, host))
                if authenticator.failure is not None:
                    raise NoPrincipal(authenticator.failure)
        return authenticator.principal

    async def _answer(self, frame: bytes, authenticator: Authenticator, host: str) -> bytes:
        if authenticator.expects_raw_token:
            token = authenticator.answer_raw_token(frame, now_ms())
            await trio.sleep(authenticator.pause_ms / 1000)
            return token
        head = read_head(frame)
        if head.key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            raise NoPrincipal(f"{head} before authentication")
        decoded = decode_request(frame)
        request = Request(
            decoded.api, decoded.version, decoded.correlation, decoded.client_id, decoded.body,
            self._listener.name, host=host,
        )  # fmt: skip
        response = authenticator.answer(request, now_ms())
        await trio.sleep(authenticator.pause_ms / 1000)
        if response is None:
            return b""
        return encode_response(APIS[decoded.api], decoded.version, decoded.correlation, response)
