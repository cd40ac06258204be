"""The state of a client listener that its connections share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

import trio

from replica.core.errors import ErrorCode
from replica.core.network.memory_limits import ListenerMemory
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.logs import Log
from replica.runtime.requests import ApiKey, Handlers, Request
from replica.wire.schemas import APIS
from replica.wire.schemas.cluster_schemas import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from zab.host.watchdog import UNWATCHED, Watchdog

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_OFFERED: Final[Mapping[ApiKey, tuple[int, int]]] = {
    # With a smallest version above 0, some releases of librdkafka assume that the broker does not support compression.
    ApiKey.PRODUCE: (0, APIS[ApiKey.PRODUCE].last),
}
"""The versions that ApiVersions reports for these APIs instead of those in the schema tables."""


class ListenerContext:
    """The handlers, security, memory and counters of one client listener."""

    def __init__(
        self,
        name: str,
        handlers: Handlers,
        log: Log,
        security: ListenerSecurity = NO_SASL,
        watchdog: Watchdog = UNWATCHED,
        on_closed: Callable[[str], object] = lambda connection: None,
    ) -> None:
        """`on_closed` is called with the id of a connection that has closed."""
        self.name = name
        self.handlers = handlers
        """Handlers by API key. ApiVersions reports these APIs, ApiVersions itself, and those of SASL."""
        self.log = log
        self.security = security
        self.watchdog = watchdog
        self.on_closed = on_closed
        self.memory = ListenerMemory()
        self.unsupported_requests = 0
        """The number of requests with an unknown API or version that closed their connection."""
        self._has_room = trio.Event()
        """Set when a request is answered or a connection closes. Replaced when a connection waits."""
        self._connections = count(1)

    def next_connection_id(self) -> str:
        return f"{self.name}-{next(self._connections)}"

    def notify_room(self) -> None:
        self._has_room.set()

    async def wait_for_room(self) -> None:
        """Wait until a request is answered or a connection closes. Connections call this while the requests of the
        listener exceed `queued.max.request.bytes`."""
        if self._has_room.is_set():
            self._has_room = trio.Event()
        await self._has_room.wait()

    # -- ApiVersions ---------------------------------------------------------------------------------------

    def answer_versions(self, request: Request[ApiVersionsRequest]) -> ApiVersionsResponse:
        names = request.body.client_software_name, request.body.client_software_version
        if request.version >= 3 and not all(_SOFTWARE.fullmatch(name) for name in names):
            return self.versions(ErrorCode.INVALID_REQUEST)
        return self.versions(ErrorCode.NONE)

    def versions(self, code: ErrorCode) -> ApiVersionsResponse:
        keys = {*self.handlers, ApiKey.API_VERSIONS, *self.security.keys}
        return ApiVersionsResponse(
            error_code=code,
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key in sorted(keys)
                for first, last in [_OFFERED.get(key, (APIS[key].first, APIS[key].last))]
            ],
        )
