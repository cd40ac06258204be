"""Serve the admin port: bounded connections, a bounded time for each request, replies in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from zab.admin.admin_settings import AdminSettings
from zab.admin.browser_guard import SETTINGS, BrowserGuard
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.core.errors import ConfigError
from zab.host.logs import KeyValueLog
from zab.net.listener import Accepted, Limit, LimitedListener, ListenerLimits, listen

if TYPE_CHECKING:
    from zab.admin.http_connection import HttpConnection

RECEIVE_BYTES: Final = 16 << 10
PIECE_BYTES: Final = 256 << 10
LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1 << 20
"""The approximate maximum of bytes that are read and discarded between the last reply and the close."""

Answer = Callable[[AdminRequest, str], Awaitable[AdminReply]]
"""Returns the reply to a request, or raises `HttpError`. The second argument is the address of the client."""


def _http_connection() -> type[HttpConnection]:
    """Import the class only when an admin port runs: it needs the extra `admin`, unlike `import zab`.

    Raise `ConfigError` if a package is missing.
    """
    try:
        import prometheus_client  # noqa: F401  # for `exposition`, which would miss it at the first scrape

        from zab.admin.http_connection import HttpConnection
    except ImportError as error:
        raise ConfigError(
            f"the admin port needs the package {error.name}, which is not installed: pip install 'zab[admin]'"
        ) from error
    return HttpConnection


class AdminPort:
    """One port for operators. A connection is half-open while its next request, or the rest of it, has not arrived."""

    def __init__(
        self,
        settings: AdminSettings,
        answer: Answer,
        log: KeyValueLog,
        names: Callable[[], Iterable[str | None]] = tuple,
        *,
        hosts_setting: str = SETTINGS,
    ) -> None:
        """`names` returns the host names that the configuration gives this server.

        `hosts_setting` is the name, for messages, of the setting that permits other names.
        """
        self._settings = settings
        self._guard = BrowserGuard([*settings.hosts, settings.host], names, hosts_setting)
        self._answer = answer
        self._http_connection: type[HttpConnection]
        """Set by `run`, because the class needs the packages of an extra."""
        self._log = log
        limits = ListenerLimits(connections_max=settings.connections_max)
        self._listener = LimitedListener("admin", log, lambda: limits, self._serve, self._refused)

    async def run(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. `task_status` is started with the number of the port.

        Raise `ConfigError` if the packages of the extra are missing, and `CannotListen` if the port cannot be opened.
        """
        settings = self._settings
        self._http_connection = _http_connection()
        listeners = await listen(settings.host, settings.port, "HTTP")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listener.accept_from, listeners, nursery)
            task_status.started(listeners[0].socket.getsockname()[1])

    def _refused(self, limit: Limit, host: str, peer: str) -> None:
        self._log.warn_rate_limited("too_many_clients", host, port="admin", peer=peer)

    async def _serve(self, connection: Accepted) -> None:
        try:
            await self._converse(connection)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except Exception as error:
            # A bug of this server: only this client loses its connection.
            self._log.failed("admin_failed", error, peer=connection.peer)
        finally:
            await trio.aclose_forcefully(connection.stream)

    async def _converse(self, connection: Accepted) -> None:
        stream: trio.SocketStream = connection.stream
        http = self._http_connection(self._settings.head_bytes_max, self._settings.body_bytes_max)
        while True:
            request = None
            try:
                with connection.half_open():
                    request = await self._receive(stream, http)
            except HttpError as error:
                await self._refuse(stream, http, error)
                return
            if request is None:
                return
            try:
                await self._guard.check(request)
                reply = await self._answer(request, connection.host)
            except HttpError as error:
                reply = error_reply(error)
            except Exception as error:
                self._log.failed("admin_failed", error, path=request.path)
                reply = error_reply(
                    HttpError(
                        HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: the log of this server has the details"
                    )
                )
            await self._send(stream, http, reply, request.method != "HEAD", request.keep)
            if not request.keep:
                await self._linger(stream)
                return

    async def _receive(self, stream: trio.SocketStream, http: HttpConnection) -> AdminRequest | None:
        """Return the next request, or None if the connection ended or stayed idle for `idle_ms`.

        Raise `HttpError` if the request is invalid, or is incomplete `request_ms` after its beginning.
        """
        settings = self._settings
        limit = trio.current_time() + settings.idle_ms / 1000
        hurry = False
        while True:
            request = http.next()
            if request is not None:
                return request
            if http.started and not hurry:
                hurry, limit = True, trio.current_time() + settings.request_ms / 1000
            with trio.move_on_at(limit) as patience:
                data = await stream.receive_some(RECEIVE_BYTES)
            if patience.cancelled_caught:
                if hurry:
                    raise HttpError(
                        HTTPStatus.REQUEST_TIMEOUT,
                        f"the request was incomplete {settings.request_ms} ms after its beginning",
                    )
                return None
            if not data:
                return None
            http.feed(data)

    async def _send(
        self, stream: trio.SocketStream, http: HttpConnection, reply: AdminReply, with_body: bool, keep: bool
    ) -> None:
        file = reply.file
        if file is None:
            head = http.head_of(reply, keep=keep)
            await self._send_piece(stream, head + reply.body if with_body else head)
            return
        with file:
            await self._send_piece(stream, http.head_of(reply, keep=keep))
            file.seek(0)
            while with_body and (piece := await trio.to_thread.run_sync(file.read, PIECE_BYTES)):
                await self._send_piece(stream, piece)

    async def _send_piece(self, stream: trio.SocketStream, data: bytes) -> None:
        with trio.move_on_after(self._settings.send_ms / 1000) as patience:
            await stream.send_all(data)
        if patience.cancelled_caught:
            raise trio.ClosedResourceError(f"a piece of the reply was not accepted in {self._settings.send_ms} ms")

    async def _refuse(self, stream: trio.SocketStream, http: HttpConnection, error: HttpError) -> None:
        await self._send(stream, http, error_reply(error), True, False)
        await self._linger(stream)

    async def _linger(self, stream: trio.SocketStream) -> None:
        """Read for a moment before closing: a close with unread data resets the connection, and may lose the reply."""
        received = 0
        with trio.move_on_after(LINGER_S):
            await stream.send_eof()
            while received < LINGER_BYTES and (data := await stream.receive_some(RECEIVE_BYTES)):
                received += len(data)


def error_reply(error: HttpError) -> AdminReply:
    return AdminReply(
        f"{error.status.value} {error.status.phrase}: {error}\n".encode(), status=error.status, headers=error.headers
    )
