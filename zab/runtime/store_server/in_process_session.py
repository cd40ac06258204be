"""A session in this process. It has no connection and no encoding, and ends with a block of the application.

To the server it is a client like any other: it sends requests and receives watch events. While there is no leader, its
calls wait and its state is SUSPENDED. It ends before its block if it expires, its credentials are refused or the store
is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

import trio

from zab.core.errors import LocalProtocolError
from zab.core.zxid import ServerId
from zab.host.logs import Log
from zab.runtime.member import Member
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.readiness import Readiness
from zab.runtime.store_server.server_membership import ServerMembership
from zab.runtime.store_server.store_machine import ChangeEvent, StoreMachine
from zab.runtime.waiter import Waiter
from zab.service.authentication import ClientAuthentication, Verdict
from zab.service.client_service import ClientService
from zab.service.request_order import RequestOrder
from zab.service.session_tracker import SessionTracker
from zab.session.api import Session
from zab.session.session_errors import LEFT, named, refused
from zab.session.state import SessionState
from zab.session.watch import Watch
from zab.session.watch_manager import WatchManager
from zab.store.acl import Identity
from zab.store.apply import Result, SubResult
from zab.store.error_codes import ErrorCode
from zab.store.operations import WRITES, Fields, Op
from zab.store.request_format import pack_body, pack_request
from zab.store.server_watches import Watcher, WatchKind
from zab.store.znode import Stat, Znode, stat_of
from zab.wire.client.requests import SHAPES

HERE: Final = "127.0.0.1"
"""The address of a session in this process, as of a client on this host."""

HEAD_BYTES: Final = 8
"""The size of the header of a request over a connection."""
NARROW: Final = 8
"""The largest factor by which a request grows from our own format to a frame of the client protocol."""

CLOSE_S: Final = 2.0
"""The longest time that the end of a block waits for the close of its session. The close itself is not given up."""


class SessionHost(Protocol):
    """The server of an in-process session."""

    log: Log
    machine: StoreMachine
    me: ServerId
    member: Member
    clients: ClientService
    settings: ClientPortSettings

    membership: ServerMembership
    readiness: Readiness

    async def create_session(self, timeout_ms: int) -> int: ...
    async def forget_watches(self, watcher: Watcher) -> None: ...


class InProcessSession(Session):
    def __init__(self, server: SessionHost, session: int, timeout_ms: int, asked_at: float) -> None:
        state = SessionState.CONNECTED if server.clients.ready else SessionState.SUSPENDED
        super().__init__(state, WatchManager(), server.settings.events_max)
        self.id = self.session = session
        self.timeout_ms = timeout_ms
        self._server = server
        self._caller = ClientAuthentication(server.settings, HERE)
        self._cxid = 0
        self._order = RequestOrder(server.clients)
        self._last_received_at = asked_at

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id:#x}, {self.state.value}>"

    @property
    def last_received_at(self) -> float:
        """The time at which the creation of the session, or its last completed `sync`, began.

        A leader has certainly answered these. Other requests do not renew this time: a read proves nothing, because the
        server may follow a deposed leader without noticing.
        """
        return self._last_received_at

    @property
    def identities(self) -> tuple[Identity, ...]:
        return self._caller.identities

    # -- for the server ----------------------------------------------------------------------------

    def was_active(self) -> bool:
        return True

    def ended(self, why: str) -> None:
        if self.id not in self._server.machine.sessions.table:
            self._finish(SessionState.EXPIRED, why)
        # Otherwise the session waits for the next leader: it cannot move to another server.

    def ready_changed(self, ready: bool) -> None:
        self._state_changes.report(SessionState.CONNECTED if ready else SessionState.SUSPENDED)
        self._order.resume()

    def store_closed(self, why: str) -> None:
        """End the session here, because the store is closed. For the ensemble it exists until it expires."""
        self._finish(SessionState.CLOSED, why)

    read_only = False

    def notify(self, change: ChangeEvent) -> None:
        self._watch_manager.happened(change.event, change.path, change.zxid)

    def failed(self, mistake: Exception) -> None:
        self._server.log.failed("watch_failed", mistake, session=f"{self.id:#x}")

    def close(self) -> None:
        self._finish(SessionState.CLOSED, LEFT)

    def _finish(self, state: SessionState, why: str, code: int = ErrorCode.SESSION_EXPIRED) -> None:
        super()._finish(state, why, code)
        self._order.end()

    # -- requests ----------------------------------------------------------------------------------

    async def add_auth(self, scheme: str, credentials: bytes) -> None:
        self._check()
        given: object = credentials
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise TypeError(f"the credentials of scheme {scheme!r} must be bytes, like b'user:password'")
        await trio.lowlevel.checkpoint()
        if self._caller.authenticate(scheme, bytes(credentials)) is not Verdict.PROVED:
            why = f"the store has refused the credentials of scheme {scheme!r}: {self._caller.why}"
            self._finish(SessionState.AUTH_FAILED, why, ErrorCode.AUTH_FAILED)
            self._server.clients.sessions.close(self.id)
            self._check()

    async def _ask(self, op: Op, fields: Fields, what: str, watch: Watch | None = None, *, rooted: bool = True) -> Any:
        self._check()
        if op in WRITES:
            return await self._change(op, fields, what)
        if op is Op.SYNC:
            asked_at = trio.current_time()
            if not self._order.is_clear:
                await self._in_order(op, lambda: None)
            await self._server.member.barrier(SessionTracker.sign_of(self.id))
            self._last_received_at = max(self._last_received_at, asked_at)
            return fields[0]
        if self._order.is_clear:
            error, value = self._read_now(op, fields, watch)
            await trio.lowlevel.checkpoint()
        else:
            error, value = await self._in_order(op, partial(self._read_now, op, fields, watch))
        if error:
            raise refused(error, op, fields, what)
        turn = _OF_READ.get(op)
        return value if turn is None else turn(value)

    def _read_now(self, op: Op, fields: Fields, watch: Watch | None) -> tuple[int, Any]:
        error, value = self._server.machine.reads.read(op, fields, self)
        self._watch_manager.answered(op, fields, error, watch)
        return error, value

    async def _in_order(self, op: Op, job: Callable[[], object]) -> Any:
        """Do a job once all earlier writes are answered and the state may be read. Return its result.

        The writes of cancelled callers count, too. Raise the session's error if the session ends meanwhile.
        """
        waiter = Waiter()
        held = self._order.hold(op, partial(self._carry_out, job, waiter))
        try:
            result = await waiter.wait()
        except trio.Cancelled:
            self._order.give_up(held)
            raise
        self._check()
        return result

    def _carry_out(self, job: Callable[[], object], waiter: Waiter) -> None:
        if self._over is not None:
            waiter.done()
            return
        try:
            waiter.done(job())
        except Exception as mistake:  # only this call fails, and the member's turn continues
            waiter.done(None, mistake)

    async def _change(self, op: Op, fields: Fields, what: str) -> Any:
        body = pack_body(fields)
        self._check_size(op, fields, len(body), what)
        self._cxid += 1
        server, waiter = self._server, Waiter()

        request = pack_request(op, body, self.id, self._cxid, server.me, self._caller.encoded)
        self._order.write(op, self._cxid, request, waiter.done)
        result: Result = await waiter.wait()  # type: ignore[assignment]  # it is what `apply` of the machine returned
        if result[1]:
            raise refused(result[1], op, fields, what)
        if op is Op.RECONFIG:  # the leader has permitted it
            error, node = await server.membership.change(fields)
            if node is None:
                raise refused(error, op, fields, what)
            return _data(node)
        return _OF_WRITE[op](result)

    def _check_size(self, op: Op, fields: Fields, packed_bytes: int, what: str) -> None:
        """Raise `LocalProtocolError` if the request's frame over a connection would exceed `frame_bytes_max`."""
        most = self._server.settings.frame_bytes_max
        if packed_bytes * NARROW <= most:
            return
        size = len(SHAPES[op].encode(fields)) + HEAD_BYTES
        if size > most:
            raise LocalProtocolError(
                f"{named(op, what)}: the request is too large, {size} bytes: frame_bytes_max is {most}. Send less at "
                "once, or raise ClientPortSettings.frame_bytes_max"
            )

    def _unwatch(self, path: str, kind: WatchKind) -> None:
        self._server.machine.watches.remove(path, self, kind)


# -- from the store's values to the protocol's ---------------------------------------------------------


def _data(node: Znode) -> tuple[bytes | None, Stat]:
    return node[0], stat_of(node)


def _read_part(part: tuple[int, int, Any]) -> tuple[int, Any]:
    op, error, value = part
    if error:
        return Op.ERROR, error
    return op, _data(value) if op == Op.GET_DATA else list(value[0])


_OF_READ: Final[Mapping[int, Callable[[Any], Any]]] = {
    Op.EXISTS: stat_of,
    Op.GET_DATA: _data,
    Op.GET_CHILDREN: lambda value: list(value[0]),
    Op.GET_CHILDREN2: lambda value: (list(value[0]), stat_of(value[1])),
    Op.GET_ACL: lambda value: (value[0], stat_of(value[1])),
    Op.GET_EPHEMERALS: list,
    Op.MULTI_READ: lambda value: list(map(_read_part, value)),
}


def _node_of(result: Result | SubResult) -> Znode:
    node = result[3]
    assert node is not None, "the result of an operation with a stat in its reply has a node"
    return node


def _stat(result: Result | SubResult) -> Stat:
    return stat_of(_node_of(result))


def _path_and_stat(result: Result) -> tuple[str | None, Stat]:
    return result[2], _stat(result)


def _write_part(part: SubResult) -> tuple[int, Any]:
    op, error, path, node = part
    if error or op == Op.ERROR:
        return Op.ERROR, error
    if op == Op.CREATE:
        return op, path
    if op == Op.SET_DATA:
        return op, _stat(part)
    return op, None if node is None else (path, stat_of(node))


_OF_WRITE: Final[Mapping[int, Callable[[Result], Any]]] = {
    Op.CREATE: lambda result: result[2],
    Op.CREATE2: _path_and_stat,
    Op.CREATE_CONTAINER: _path_and_stat,
    Op.CREATE_TTL: _path_and_stat,
    Op.DELETE: lambda result: None,
    Op.SET_DATA: _stat,
    Op.SET_ACL: _stat,
    Op.MULTI: lambda result: list(map(_write_part, result[4])),
}


@asynccontextmanager
async def opened(server: SessionHost, timeout_ms: int) -> AsyncIterator[InProcessSession]:
    asked_at = trio.current_time()
    session = InProcessSession(server, await server.create_session(timeout_ms), timeout_ms, asked_at)
    server.clients.sessions.attach(session)
    server.readiness.sessions[session] = None
    try:
        yield session
    finally:
        server.clients.sessions.detach(session)
        del server.readiness.sessions[session]
        await server.forget_watches(session)
        if session.over is None:
            session.close()
            closed = trio.Event()
            server.clients.sessions.close(session.id, lambda result, error: closed.set())
            with trio.move_on_after(CLOSE_S, shield=True):
                await closed.wait()
