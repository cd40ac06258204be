"""The admin port: lets in a bounded number of callers, hears each out for a bounded time, answers in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Final

import trio

from zab.runtime.admin.browsers import BrowserGuard
from zab.runtime.admin.http import HttpError, Reply, Request, RequestReader, encode_head
from zab.runtime.admin.settings import AdminSettings
from zab.runtime.errors import cannot_listen
from zab.runtime.half_open import HalfOpen
from zab.runtime.logs import Log
from zab.runtime.ports import accept_all, peer_name

RECEIVE_BYTES: Final = 16 << 10
PIECE_BYTES: Final = 256 << 10
LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1 << 20
"""What is still read of a request that was refused, so that the refusal arrives before the end of the connection."""

Answer = Callable[[Request, str], Awaitable[Reply]]
"""What to say to a request, and to whom: the address of the caller."""


class AdminPort:
    """Whoever says nothing takes nobody's place: where it is full, one more ends the wait for the oldest of them.

    It is one of the address that has most of them, so a flood from one address is at its own cost.
    """

    def __init__(
        self, settings: AdminSettings, answer: Answer, log: Log, names: Callable[[], Iterable[str | None]] = tuple
    ) -> None:
        """`names` returns the host names that the configuration gives this server."""
        self._settings = settings
        self._guard = BrowserGuard([*settings.hosts, settings.host], names)
        self._answer = answer
        self._log = log
        self._open = 0
        self._silent = HalfOpen()
        """Connections whose request, or the rest of it, has not arrived."""

    async def run(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Started with the number of the port."""
        settings = self._settings
        try:
            listeners = await trio.open_tcp_listeners(settings.port, host=settings.host)
        except OSError as error:
            raise cannot_listen(settings.host, settings.port, "HTTP", error) from error
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(accept_all, listener, nursery, self._serve, self._log, "admin")
            task_status.started(listeners[0].socket.getsockname()[1])

    async def _serve(self, stream: trio.SocketStream) -> None:
        host, peer = peer_name(stream)
        if self._open >= self._settings.connections_max:
            self._log.grumble("too_many_clients", host, port="admin", peer=peer)
        # Who was told to go is not gone yet; they are no more than were let in.
        if self._open >= self._settings.connections_max and self._silent.make_room() is None:
            await trio.aclose_forcefully(stream)
            return
        self._open += 1
        try:
            await self._converse(stream, host)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except Exception as error:
            # A mistake of ours. It costs this caller the connection, and nobody else anything.
            self._log.failed("admin_failed", error, peer=peer)
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)

    async def _converse(self, stream: trio.SocketStream, host: str) -> None:
        reader = RequestReader(self._settings.head_bytes_max, self._settings.body_bytes_max)
        while True:
            try:
                request = await self._wait_for(stream, reader, host)
            except HttpError as error:
                await self._refuse(stream, error)
                return
            if request is None:
                return
            try:
                await self._guard.check(request)
                reply = await self._answer(request, host)
            except HttpError as error:
                reply = error_reply(error)
            except Exception as error:
                self._log.failed("admin_failed", error, path=request.path)
                reply = error_reply(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "a mistake of ours; the log has it"))
            await self._send(stream, reply, request.method != "HEAD", request.keep)
            if not request.keep:
                await self._linger(stream)
                return

    async def _wait_for(self, stream: trio.SocketStream, reader: RequestReader, host: str) -> Request | None:
        with self._silent.entered(host):
            return await self._receive(stream, reader)
        return None

    async def _receive(self, stream: trio.SocketStream, reader: RequestReader) -> Request | None:
        """None: there is no next one, or it takes too long."""
        settings = self._settings
        limit = trio.current_time() + settings.idle_ms / 1000
        hurry = False
        while True:
            request = reader.next()
            if request is not None:
                return request
            if reader.started and not hurry:
                hurry, limit = True, trio.current_time() + settings.request_ms / 1000
            with trio.move_on_at(limit) as patience:
                data = await stream.receive_some(RECEIVE_BYTES)
            if patience.cancelled_caught:
                if hurry:
                    raise HttpError(
                        HTTPStatus.REQUEST_TIMEOUT, f"the request is not whole after {settings.request_ms} ms"
                    )
                return None
            if not data:
                return None
            reader.feed(data)

    async def _send(self, stream: trio.SocketStream, reply: Reply, with_body: bool, keep: bool) -> None:
        file = reply.file
        if file is None:
            head = encode_head(reply, keep=keep)
            await self._send_piece(stream, head + reply.body if with_body else head)
            return
        with file:
            await self._send_piece(stream, encode_head(reply, keep=keep))
            file.seek(0)
            while with_body and (piece := await trio.to_thread.run_sync(file.read, PIECE_BYTES)):
                await self._send_piece(stream, piece)

    async def _send_piece(self, stream: trio.SocketStream, data: bytes) -> None:
        with trio.move_on_after(self._settings.send_ms / 1000) as patience:
            await stream.send_all(data)
        if patience.cancelled_caught:
            raise trio.ClosedResourceError("it does not read")

    async def _refuse(self, stream: trio.SocketStream, error: HttpError) -> None:
        await self._send(stream, error_reply(error), True, False)
        await self._linger(stream)

    async def _linger(self, stream: trio.SocketStream) -> None:
        """A close with something unread would take back what was sent: so hear it out, for a moment."""
        heard = 0
        with trio.move_on_after(LINGER_S):
            await stream.send_eof()
            while heard < LINGER_BYTES and (data := await stream.receive_some(RECEIVE_BYTES)):
                heard += len(data)


def error_reply(error: HttpError) -> Reply:
    return Reply(
        f"{error.status.value} {error.status.phrase}: {error}\n".encode(), status=error.status, headers=error.headers
    )
