"""The I/O of one client connection: it moves bytes, calls handlers, and follows the decisions of its
`ClientConnection`.

Each connection has three tasks. One reads ahead of the requests being executed, because only a read detects that the
client has left. One executes requests. One sends all responses that have accumulated. Each replicated write waits for
replicas in a task of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import trio

from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.core.network.client_connection import ClientConnection, PendingWrite, RequestKind
from replica.core.network.connection_limits import ConnectionLimits
from replica.runtime.network.listener_context import ListenerContext
from replica.runtime.requests import ANONYMOUS, ApiKey, Request, ignore
from replica.wire.encoding import Unwritable
from replica.wire.framing import Framing
from replica.wire.messages import (
    HEAD_BYTES,
    DecodedRequest,
    UnknownApi,
    decode_request,
    encode_response,
    read_head,
)
from replica.wire.schemas import APIS
from replica.wire.schemas.cluster_schemas import API_VERSIONS
from zab.host.clocks import now_ms
from zab.host.logs import shown
from zab.host.watchdog import TimedSteps
from zab.net.wakeup import Wakeup

_ACKS_ALL: Final = -1
_KINDS: Final[Mapping[int, RequestKind]] = {
    ApiKey.FETCH: RequestKind.LONG_POLL,
    ApiKey.JOIN_GROUP: RequestKind.LONG_POLL,
    ApiKey.SYNC_GROUP: RequestKind.LONG_POLL,
    ApiKey.API_VERSIONS: RequestKind.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE: RequestKind.AUTHENTICATION,
    ApiKey.SASL_AUTHENTICATE: RequestKind.AUTHENTICATION,
}
_LONG_REQUEST_BYTES: Final = 16 << 10
"""The size in bytes above which a request lets other tasks run between its decoding, execution and encoding. The lists
of a smaller request are short."""
_LONG_PRODUCE_PARTITIONS: Final = 100
"""A Produce above `_LONG_REQUEST_BYTES` lets other tasks run only if it also has more partitions than this, since its
records alone may make it large."""
_READ_BYTES_MAX: Final = 1 << 20
_BROKEN: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Cut(Exception):
    """The broker closes this connection. The message is the reason, for the log."""


class ConnectionShell:
    """Moves the bytes of one client connection between its stream and its `ClientConnection`."""

    def __init__(
        self,
        listener: ListenerContext,
        limits: ConnectionLimits,
        stream: trio.abc.Stream,
        host: str,
        peer: str,
        principal: str = ANONYMOUS,
        on_identified: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_identified` is called whenever requests have arrived; with SASL, after each successful authentication
        instead."""
        self._listener = listener
        self._id = listener.next_connection_id()
        self._stream = stream
        self._host = host
        self._peer = peer
        self._principal = principal
        """The principal: at first that of the TLS certificate, later that of SASL."""
        self._on_identified = on_identified
        self._client_id: str | None = None
        """The client id of the last request, for the log."""
        self._scope = trio.CancelScope()
        """Cancelled when the connection is cut."""
        self._authenticator = listener.security.authenticator(host)
        """The SASL authentication; None if the listener does not use SASL."""
        self._connection = ClientConnection(limits, listener.memory, self._authenticator, self._scope.cancel)
        request_bytes_max = limits.request_bytes_max
        if self._authenticator is not None:
            request_bytes_max = min(limits.first_request_bytes_max, request_bytes_max)
        self._framing = Framing(request_bytes_max)
        self._arrived = Wakeup()
        """Wakes the executing task when requests have arrived."""
        self._progressed = Wakeup()
        """Wakes the executing task when a write is placed or answered, or when responses are sent."""
        self._answered = Wakeup()
        """Wakes the reading task when a request is answered, or when responses are sent."""
        self._unsent = Wakeup()
        """Wakes the sending task when there are responses to send."""

    async def run(self) -> None:
        log, connection, stalled_s = self._listener.log, self._connection, self._connection.limits.stalled_s
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._execute_all, nursery)
                    nursery.start_soon(self._send_all)
                    try:
                        await self._receive_all()
                    except WireError:
                        with trio.move_on_after(stalled_s):
                            await self._finish()
                        raise
                    connection.leave()
                    with trio.move_on_after(stalled_s):
                        await self._finish()
                    nursery.cancel_scope.cancel()
            if connection.failure:
                raise Cut(connection.failure)
        except* _BROKEN:
            pass
        except* (WireError, Cut) as errors:
            why = errors.exceptions[0]
            version = (why.head.key, why.head.version) if isinstance(why, UnknownApi) else None
            key = hash((self._host, self._client_id, version))  # hashed, because a client id may have 32 KB
            log.warn_rate_limited(
                "client_protocol_error", key, cause=self._host, peer=self._peer, client=self._client_id, why=why
            )
        except* Exception as errors:
            # A bug in this broker: only this client loses its connection.
            log.failed("request_failed", errors.exceptions[0], peer=self._peer, client=self._client_id)
        finally:
            connection.close()
            self._listener.notify_room()
            self._listener.on_closed(self._id)
            await trio.aclose_forcefully(self._stream)

    # -- reading -------------------------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        """Read until the client closes its side or is idle for too long."""
        connection, framing, limits = self._connection, self._framing, self._connection.limits
        while True:
            with trio.move_on_after(limits.idle_s) as patience:
                try:
                    data = await self._stream.receive_some(
                        max(limits.receive_bytes, min(framing.missing_bytes, _READ_BYTES_MAX))
                    )
                except _BROKEN:
                    return
            if patience.cancelled_caught:
                if connection.is_idle:
                    return
                continue
            if not data:
                return
            requests = framing.feed(data)
            connection.receive(requests, framing.held_bytes)
            del data  # free the memory before the task waits
            if requests:
                del requests
                if self._authenticator is None:
                    self._on_identified()
                self._arrived.ring()
                await self._wait_for_room()
                framing.check()

    async def _wait_for_room(self) -> None:
        connection, limits, listener = self._connection, self._connection.limits, self._listener
        while connection.is_full:
            self._answered.answer()
            await self._answered.wait()
        while listener.memory.request_bytes > limits.waiting_bytes_total_max:
            await listener.wait_for_room()

    async def _finish(self) -> None:
        """Wait until all requests are executed and all responses are sent. If the client has left, a long poll in
        progress does not count."""
        connection = self._connection
        while not (connection.is_worked_off and connection.is_drained):
            self._answered.answer()
            await self._answered.wait()

    # -- executing -----------------------------------------------------------------------------------------

    async def _execute_all(self, nursery: trio.Nursery) -> None:
        connection, watchdog = self._connection, self._listener.watchdog
        while True:
            while not connection.queued:
                self._arrived.answer()
                await self._arrived.wait()
            try:
                named = self._named_by(connection.queued[0])
                await TimedSteps(watchdog, named, self._execute(nursery, connection.take()))
            except (WireError, Cut):
                with trio.move_on_after(connection.limits.stalled_s):
                    while not connection.is_drained:
                        await self._progress()
                raise
            connection.executing = None
            self._answered.ring()
            while not connection.may_start:
                await self._progress()
            if connection.muted_until > trio.current_time() and not connection.client_left:
                await trio.sleep_until(connection.muted_until)
            # Let other connections and the sending task run, even if the handler did not wait.
            await trio.lowlevel.checkpoint()

    async def _wait_for_writes(self, kind: RequestKind) -> None:
        """Wait until earlier writes allow a request of this kind."""
        while not self._connection.may_execute(kind):
            await self._progress()

    async def _progress(self) -> None:
        self._progressed.answer()
        await self._progressed.wait()

    async def _execute(self, nursery: trio.Nursery, frame: bytes) -> None:
        """Execute one request. Return when it is answered; for a replicated write, when its records have offsets.

        After SaslHandshake version 0, frames are raw tokens instead of requests until authentication ends. An
        ApiVersions request of an unknown version is answered in version 0 (KIP-35), except during authentication. Any
        other unknown request ends the connection.
        """
        connection, authenticator = self._connection, self._authenticator
        if authenticator is not None and authenticator.expects_raw_token:
            await self._wait_for_writes(RequestKind.AUTHENTICATION)
            token = authenticator.answer_raw_token(frame, now_ms())
            await trio.sleep(authenticator.pause_ms / 1000)
            self._respond(frame, token)
            self._after_authentication()
            return
        if authenticator is not None and not authenticator.done:
            head = read_head(frame)  # refused before its body is decoded
            self._check_allowed(_KINDS.get(head.key, RequestKind.ORDINARY), str(head))
        try:
            request = decode_request(frame)
        except UnknownApi as error:
            authenticates = authenticator is not None and authenticator.started and not authenticator.done
            if error.head.key != ApiKey.API_VERSIONS or authenticates:
                # Close the connection. No response is possible: the client could not decode one of another version, and
                # expects none to a Produce with acks=0.
                self._client_id = error.client_id
                self._listener.unsupported_requests += 1
                raise
            await self._wait_for_writes(RequestKind.API_VERSIONS)
            versions = self._listener.versions(ErrorCode.UNSUPPORTED_VERSION)
            self._respond(frame, encode_response(API_VERSIONS, 0, error.head.correlation, versions))
            return
        self._client_id = request.client_id
        kind = _kind_of(request)
        if connection.is_useless(kind):
            self._respond(frame, None)
            return
        is_long = has_long_lists(request, frame)
        if is_long:
            await trio.lowlevel.checkpoint()
        if connection.pending_writes:
            await self._wait_for_writes(kind)
        if kind is RequestKind.REPLICATED_WRITE:
            scope = trio.CancelScope()
            write = connection.begin_write(len(frame), scope.cancel)
            nursery.start_soon(self._write, request, kind, frame, write, scope)
            while not write.is_placed:
                await self._progress()
            return
        response = await self._response_to(request, kind)
        if is_long:
            await trio.lowlevel.checkpoint()
        self._respond(frame, *self._encoded(request, response))
        if kind is RequestKind.AUTHENTICATION:
            self._after_authentication()

    def _check_allowed(self, kind: RequestKind, request: str) -> None:
        """Raise `Cut` for a request that the state of authentication forbids."""
        refusal = self._connection.refusal(kind, 0 if self._authenticator is None else now_ms())
        if refusal is not None:
            raise Cut(f"{request} refused at listener {self._listener.name}: {refusal}")

    async def _write(
        self,
        request: DecodedRequest[Any],
        kind: RequestKind,
        frame: bytes,
        write: PendingWrite,
        scope: trio.CancelScope,
    ) -> None:
        """Execute a replicated write in its own task."""
        encoded: tuple[bytes | None, float] = None, 0.0
        with scope:
            answering = self._response_to(request, kind, partial(self._place, write))
            response = await TimedSteps(self._listener.watchdog, self._named_by(frame), answering)
            if has_long_lists(request, frame):
                await trio.lowlevel.checkpoint()
            encoded = self._encoded(request, response)
        self._connection.complete(write, *encoded)
        self._unsent.ring()
        self._answered.ring()
        self._progressed.ring()
        self._listener.notify_room()

    def _place(self, write: PendingWrite) -> None:
        self._connection.place(write)
        self._progressed.ring()

    async def _response_to(
        self, decoded: DecodedRequest[Any], kind: RequestKind, placed: Callable[[], None] = ignore
    ) -> object | None:
        listener, authenticator = self._listener, self._authenticator
        self._check_allowed(kind, decoded.api.name)
        request = Request(
            decoded.api, decoded.version, decoded.correlation, decoded.client_id, decoded.body,
            listener.name, self._principal, self._host, placed, self._id,
        )  # fmt: skip
        if kind is RequestKind.API_VERSIONS:
            return listener.answer_versions(request)
        if kind is RequestKind.AUTHENTICATION:
            assert authenticator is not None, "otherwise `_check_allowed` has refused the request"
            answer = authenticator.answer(request, now_ms())
            await trio.sleep(authenticator.pause_ms / 1000)
            return answer
        handler = listener.handlers.get(request.api)
        if handler is None:
            raise Cut(f"{request.api.name} has no handler at listener {listener.name}")
        if request.api is ApiKey.FETCH:
            room = listener.memory.response_bytes_max(self._connection.limits.unsent_bytes_total_max)
            # A fetch of 0 bytes would make no progress.
            request.body.max_bytes = min(max(request.body.max_bytes, 1), room)
        try:
            response: object | None = await handler(request)
        except KafkaError as error:
            raise Cut(f"{request.api.name}: {error}") from error
        return response

    def _after_authentication(self) -> None:
        authenticator = self._authenticator
        assert authenticator is not None, "only a listener with SASL authenticates"
        if authenticator.failure is not None:
            raise Cut(authenticator.failure)  # the response is sent before the connection closes
        if authenticator.done:
            self._on_identified()
            self._principal = authenticator.principal
            self._framing.bytes_max = self._connection.limits.request_bytes_max

    def _named_by(self, frame: bytes) -> Callable[[], str]:
        """Return a function that describes the request for the log. It keeps only the head of the request in memory."""
        return partial(self._named, frame[:HEAD_BYTES], len(frame))

    def _named(self, head: bytes, size: int) -> str:
        try:
            name = str(read_head(head))
        except WireError:
            name = "a request"
        return f"{name} of {size} bytes, client {shown(self._client_id)}, {self._peer}"

    # -- sending -------------------------------------------------------------------------------------------

    def _encoded(self, request: DecodedRequest[Any], response: object | None) -> tuple[bytes | None, float]:
        """Return the response as bytes, and the time until which its throttle time mutes the client; 0 without one."""
        if response is None:
            return None, 0.0
        try:
            data = encode_response(APIS[request.api], request.version, request.correlation, response)
        except Unwritable as error:
            raise AssertionError(str(error)) from error
        throttle_ms = getattr(response, "throttle_time_ms", 0)  # responses to SASL requests have no such field
        return data, trio.current_time() + throttle_ms / 1000 if throttle_ms else 0.0

    def _respond(self, frame: bytes, response: bytes | None, muted_until: float = 0.0) -> None:
        self._connection.respond(len(frame), response, muted_until)
        self._unsent.ring()
        self._listener.notify_room()

    async def _send_all(self) -> None:
        connection = self._connection
        while True:
            while not connection.unsent:
                self._unsent.answer()
                await self._unsent.wait()
            await self._send_unsent()

    async def _send_unsent(self) -> None:
        connection = self._connection
        data = connection.take_unsent()
        try:
            await self._send(data)
        except _BROKEN:
            if not connection.client_left:
                raise
        connection.sent(len(data))
        self._progressed.ring()
        self._answered.ring()

    async def _send(self, data: bytes) -> None:
        """Send in parts, to distinguish a slow client from one that does not read."""
        limits = self._connection.limits
        step = limits.receive_bytes
        for start in range(0, len(data), step):
            with trio.move_on_after(limits.stalled_s) as patience:
                await self._stream.send_all(memoryview(data)[start : start + step])
            if patience.cancelled_caught:
                raise Cut(f"the client read less than {step} bytes of its responses in {limits.stalled_s:g} s")


def has_long_lists(request: DecodedRequest[Any], frame: bytes) -> bool:
    """Return whether other tasks should run between the decoding, execution and encoding of this request."""
    if len(frame) <= _LONG_REQUEST_BYTES:
        return False
    if request.api is not ApiKey.PRODUCE:
        return True
    return sum(len(topic.partition_data) for topic in request.body.topic_data) > _LONG_PRODUCE_PARTITIONS


def _kind_of(request: DecodedRequest[Any]) -> RequestKind:
    if request.api is ApiKey.PRODUCE:
        return RequestKind.REPLICATED_WRITE if request.body.acks == _ACKS_ALL else RequestKind.ORDINARY
    return _KINDS.get(request.api, RequestKind.ORDINARY)
