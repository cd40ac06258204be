"""A session in this process: no socket, no encoding, and the scope of a block in place of a connection.

    async with store.session() as session:
        await session.create("/a", b"1")
        async with session.watch("/a") as events:
            data, stat = await session.get("/a")
            async for event in events: ...

Every call either returns when it is done and durable, or raises. Whoever cancels a change cannot know whether
it will still be made. A read sees every change that was told to be done before, by anyone on this server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import trio
from attrs import frozen

from zab.core.errors import LocalProtocolError
from zab.runtime.coordination.errors import EventsLost, SessionExpired, StoreError, error_of
from zab.runtime.doorbell import Doorbell
from zab.store.acl import OPEN, SUPER, Acl, Identity, digest_id, encode_identities
from zab.store.apply import Result
from zab.store.errors import ErrorCode
from zab.store.node import Stat, stat_of
from zab.store.ops import ANY_VERSION, CreateFlag, Fields, Op
from zab.store.request import pack_body, pack_request
from zab.store.watches import Event, WatchMode

if TYPE_CHECKING:
    from zab.runtime.coordination.machine import Change
    from zab.runtime.coordination.server import StoreServer

CLOSE_S: Final = 2.0
"""How long the end of a block waits to hear that its session is closed. It will be, sooner or later, all the same."""


@frozen
class WatchEvent:
    event: Event
    path: str
    zxid: int


class Watch:
    """An async iterator of what happens to a node, or below it. It knows nothing of what happened before it began."""

    def __init__(self, session: Session, events_max: int) -> None:
        self._session = session
        self._events: deque[WatchEvent] = deque()
        self._events_max = events_max
        self._bell = Doorbell()
        self._over: Exception | None = None

    @property
    def session(self) -> int:
        return self._session.session

    @property
    def identities(self) -> Sequence[Identity]:
        return self._session.identities

    def notify(self, change: Change) -> None:
        if len(self._events) >= self._events_max:
            self.end(EventsLost(f"{self._events_max} events were not looked at"))
            return
        self._events.append(WatchEvent(Event(change.event), change.path, change.zxid))
        self._bell.ring()

    def end(self, error: Exception) -> None:
        if self._over is None:
            self._over = error
            self._bell.ring()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self._over is not None:
                raise self._over
            await self._bell.wait()
        return self._events.popleft()


class Multi:
    """Operations that are done all together, or not at all. Later ones see what earlier ones will have done."""

    def __init__(self) -> None:
        self.operations: list[tuple[int, Fields]] = []

    def create(
        self, path: str, data: bytes | None = b"", *, ephemeral: bool = False, sequential: bool = False, acl: Acl = OPEN
    ) -> Self:
        self.operations.append((Op.CREATE2, (path, data, acl, ephemeral + 2 * sequential)))
        return self

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Self:
        self.operations.append((Op.SET_DATA, (path, data, version)))
        return self

    def delete(self, path: str, version: int = ANY_VERSION) -> Self:
        self.operations.append((Op.DELETE, (path, version)))
        return self

    def check(self, path: str, version: int) -> Self:
        self.operations.append((Op.CHECK, (path, version)))
        return self


class Session:
    def __init__(self, server: StoreServer, session: int, timeout_ms: int) -> None:
        self.session = session
        self.timeout_ms = timeout_ms
        self.identities: tuple[Identity, ...] = ()
        self.over: str | None = None
        """Why the session is no more."""
        self._server = server
        self._identified = encode_identities(())
        self._cxid = 0
        self._watches: dict[Watch, None] = {}

    # -- for the server ----------------------------------------------------------------------------

    def heard_of(self) -> bool:
        return True

    def ended(self, why: str) -> None:
        if self.session in self._server.machine.sessions.table:
            return  # a leader will be found again: a session in this process has nowhere else to go
        self.over = why
        for watch in self._watches:
            watch.end(SessionExpired(ErrorCode.SESSION_EXPIRED, why))

    # -- who asks ----------------------------------------------------------------------------------

    def authenticate(self, user: str, password: str) -> None:
        """From now on, as somebody who knows this password (the scheme `digest`)."""
        settings = self._server.settings
        name = digest_id(f"{user}:{password}".encode(), settings.digest_algorithm)
        found = [*self.identities, ("digest", name)]
        if settings.super_digest == name:
            found.append((SUPER, ""))
        self.identities = tuple(dict.fromkeys(found))
        self._identified = encode_identities(self.identities)

    # -- changes -----------------------------------------------------------------------------------

    async def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        acl: Acl = OPEN,
    ) -> str:
        """Returns the path, which is complete with its number only then if `sequential`."""
        if container + (ttl_ms is not None) + ephemeral > 1 or (container and sequential):
            raise LocalProtocolError("a node is ephemeral, a container, or has a TTL; and a container has no number")
        if container:
            op, fields = Op.CREATE_CONTAINER, (path, data, acl, CreateFlag.CONTAINER)
        elif ttl_ms is not None:
            flags = CreateFlag.PERSISTENT_SEQUENTIAL_TTL if sequential else CreateFlag.PERSISTENT_TTL
            op, fields = Op.CREATE_TTL, (path, data, acl, flags, ttl_ms)  # type: ignore[assignment]
        else:
            op, fields = Op.CREATE2, (path, data, acl, ephemeral + 2 * sequential)  # type: ignore[assignment]
        _, _, created, _, _ = await self._change(op, fields, path)
        assert created is not None
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        return _stat_of(await self._change(Op.SET_DATA, (path, data, version), path))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(Op.DELETE, (path, version), path)

    async def set_acl(self, path: str, acl: Acl, version: int = ANY_VERSION) -> Stat:
        return _stat_of(await self._change(Op.SET_ACL, (path, acl, version), path))

    async def multi(self, operations: Multi) -> list[str | Stat | None]:
        """What each did: the path it made, the stat it left, or nothing. Raises the error of the one that failed."""
        *_, results = await self._change(Op.MULTI, tuple(operations.operations), "multi")
        found: list[str | Stat | None] = []
        for index, (op, error, path, node) in enumerate(results):
            if op == Op.ERROR:
                if error not in (0, ErrorCode.RUNTIME_INCONSISTENCY):
                    raise error_of(error, f"operation {index} of a multi")
                continue
            found.append(stat_of(node) if op == Op.SET_DATA and node is not None else path)
        return found

    async def _change(self, op: Op, fields: Fields, what: str) -> Result:
        self._check()
        self._cxid += 1
        server = self._server
        result = await server.ask(
            pack_request(op, pack_body(fields), self.session, self._cxid, server.me, self._identified)
        )
        if result[1]:
            raise error_of(result[1], what)
        return result

    # -- reads -------------------------------------------------------------------------------------

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        node = await self._read(Op.GET_DATA, (path, False), path)
        return node[0], stat_of(node)

    async def exists(self, path: str) -> Stat | None:
        try:
            return stat_of(await self._read(Op.EXISTS, (path, False), path))
        except StoreError as error:
            if error.code == ErrorCode.NO_NODE:
                return None
            raise

    async def children(self, path: str) -> list[str]:
        names, _ = await self._read(Op.GET_CHILDREN, (path, False), path)
        return list(names)

    async def acl(self, path: str) -> tuple[Acl, Stat]:
        acl, node = await self._read(Op.GET_ACL, (path,), path)
        return acl, stat_of(node)

    async def ephemerals(self, prefix: str = "/") -> list[str]:
        return list(await self._read(Op.GET_EPHEMERALS, (prefix,), prefix))

    async def count_below(self, path: str) -> int:
        count: int = await self._read(Op.GET_ALL_CHILDREN_NUMBER, (path,), path)
        return count

    async def who_am_i(self) -> list[tuple[str, str]]:
        return list(await self._read(Op.WHO_AM_I, (), "who am I"))

    async def sync(self) -> None:
        """A read after it sees every change that anybody, anywhere, had been told of before it."""
        self._check()
        await self._server.member.barrier()

    async def _read(self, op: Op, fields: Fields, what: str) -> Any:
        self._check()
        await self._server.readable()
        error, value = self._server.machine.reads.read(op, fields, self)
        if error:
            raise error_of(error, what)
        return value

    def _check(self) -> None:
        if self.over is not None:
            raise SessionExpired(ErrorCode.SESSION_EXPIRED, self.over)

    # -- watches -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[Watch]:
        """What happens to the node and its list of children; or, if recursive, to all nodes of the subtree."""
        self._check()
        await self._server.readable()
        watches = self._server.machine.watches
        watch = Watch(self, self._server.settings.events_max)
        watches.add(path, watch, WatchMode.RECURSIVE if recursive else WatchMode.PERSISTENT)
        self._watches[watch] = None
        try:
            yield watch
        finally:
            del self._watches[watch]
            watches.drop(watch)


def _stat_of(result: Result) -> Stat:
    node = result[3]
    assert node is not None, "an operation that answers with a stat leaves a node"
    return stat_of(node)


@asynccontextmanager
async def opened(server: StoreServer, timeout_ms: int) -> AsyncIterator[Session]:
    session = Session(server, await server.create_session(timeout_ms), timeout_ms)
    server.attach(session)
    try:
        yield session
    finally:
        server.detach(session)
        if session.over is None:
            session.over = "the block of this session is left"
            closed = trio.Event()
            server.close_session(session.session, lambda result, error: closed.set())
            with trio.move_on_after(CLOSE_S, shield=True):
                await closed.wait()
