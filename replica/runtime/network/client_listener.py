"""A listener: lets clients in, as many as there may be, and says what is spoken here."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Final

import trio

from replica.core.errors import ErrorCode
from replica.core.principals import NoPrincipal, Principals
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.logs import Log
from replica.runtime.network.client_connection import ClientConnection
from replica.runtime.network.connection_limits import ConnectionLimits
from replica.runtime.network.memory_limits import PartialRequests
from replica.runtime.network.tls_handshake import accept_tls
from replica.runtime.requests import ANONYMOUS, ApiKey, Handlers, Request
from replica.wire.schemas import APIS
from replica.wire.schemas.cluster_schemas import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from zab.host.watchdog import UNWATCHED, Watchdog
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits, listen

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

OFFERED: Final[Mapping[ApiKey, tuple[int, int]]] = {
    # Some releases of librdkafka take a least version above 0 for a broker that cannot have its records compressed.
    ApiKey.PRODUCE: (0, APIS[ApiKey.PRODUCE].last),
    ApiKey.JOIN_GROUP: (0, 7),
}
"""Where it is not all that the tables know."""


class ClientListener:
    """handlers   who answers what; what has no handler is not offered, so clients do not ask for it"""

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
    ) -> None:
        """`host` None: on all interfaces. `port` 0: whichever is free. `principals`: whom certificates are about."""
        self.name = name
        self.handlers = handlers
        self.log = log
        self.settings = settings or ConnectionLimits()
        self.security = security
        self.watchdog = watchdog
        self.waiting_bytes = 0
        """Of all its connections' requests that are not answered yet."""
        self.unfinished = PartialRequests()
        self.unsent_bytes = 0
        """Of answers to all its connections that they have not taken."""
        self.unsupported = 0
        """Requests that ended their connection: their kind, or their version, is not spoken here."""
        self.refused_for_descriptors = 0
        """Because the rest of what this process may have open is for logs."""
        self._host = host
        self._port = port
        self._tls = tls
        self._principals = principals or Principals()
        self._listeners: list[trio.SocketListener] = []
        self._listener = LimitedListener(name, log, self._limits, self._serve, self._refused)
        """A connection is half-open until its first request or, where clients log in, until it has logged in."""
        self._room = trio.Event()

    async def bind(self) -> int:
        """Takes the port and says its number. Who dials now waits until `run`."""
        self._listeners = await listen(self._host, self._port, f"listener {self.name}")
        port: int = self._listeners[0].socket.getsockname()[1]
        return port

    async def aclose(self) -> None:
        """Also of one that has never run."""
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
        if limit is Limit.DESCRIPTORS:
            self.refused_for_descriptors += 1
            refused, here = self.refused_for_descriptors, self._listener.count
            self.log.warn_rate_limited(
                "too_many_descriptors", self.name, listener=self.name, connections=here, refused=refused
            )
        else:
            self.log.warn_rate_limited("too_many_connections", host, listener=self.name, peer=peer)

    async def _serve(self, accepted: Accepted) -> None:
        """An error of one connection must not end the port."""
        stream, host, peer = accepted.stream, accepted.host, accepted.peer
        try:
            with accepted.half_open() as wait:
                found = await self._secured(stream, host, peer)
                if found is not None:
                    await ClientConnection(self, found[0], host, peer, found[1], wait.shown).run()
            if wait.dropped:
                self.log.warn_rate_limited("silent_client_dropped", host, listener=self.name, peer=peer)
                await trio.aclose_forcefully(stream)
        except Exception as error:
            self.log.failed("connection_failed", error, listener=self.name, peer=peer)
            await trio.aclose_forcefully(stream)

    async def _secured(self, stream: trio.SocketStream, host: str, peer: str) -> tuple[trio.abc.Stream, str] | None:
        """Said in TLS where it has to be; and whom its certificate, if it has shown one, is about."""
        if self._tls is None:
            return stream, ANONYMOUS
        try:
            with trio.fail_after(self.settings.handshake_s):
                return await accept_tls(stream, self._tls, self._principals)
        except (trio.BrokenResourceError, trio.TooSlowError, ssl.SSLError, NoPrincipal) as error:
            self.log.warn_rate_limited(
                "no_handshake", host, listener=self.name, peer=peer, why=error.__cause__ or repr(error)
            )
            await trio.aclose_forcefully(stream)
            return None

    # -- memory --------------------------------------------------------------------------------------------

    def room(self) -> None:
        self._room.set()

    async def until_room(self) -> None:
        self._room = trio.Event() if self._room.is_set() else self._room
        await self._room.wait()

    # -- what is spoken here -------------------------------------------------------------------------------

    def answer_versions(self, request: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
        named = request.body.client_software_name, request.body.client_software_version
        if request.version >= 3 and not all(_SOFTWARE.fullmatch(word) for word in named):
            return self.versions(ErrorCode.INVALID_REQUEST)
        return self.versions(ErrorCode.NONE)

    def versions(self, code: ErrorCode) -> ApiVersionsResponse:
        keys = {*self.handlers, ApiKey.API_VERSIONS, *self.security.keys}
        return ApiVersionsResponse(
            error_code=code,
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key in sorted(keys)
                for first, last in [OFFERED.get(key, (APIS[key].first, APIS[key].last))]
            ],
        )
