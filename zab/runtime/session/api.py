"""A session of the store: everything one can do with it, whichever door it came through.

    async with store.session() as session:                  # in this process
    async with zab.connect("127.0.0.1:2181") as session:    # over ZooKeeper's protocol
        await session.create("/a", b"1")
        async with session.watch("/a") as events:
            data, stat = await session.get("/a")
            async for event in events: ...

Every call either returns when it is done, or raises; while nothing can be reached it waits, so put a deadline
around it (`trio.fail_after`) if you have one. Whoever cancels a change cannot know whether it will still be
made. `OutcomeUnknown` says the same of a change whose answer was lost with its connection.

What a door adds stands in the methods that are abstract here; all else is the same by construction.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from zab.core.errors import LocalProtocolError
from zab.runtime.errors import OutcomeUnknown
from zab.runtime.session.book import WatchBook
from zab.runtime.session.errors import LEFT, BadArguments, NoNode, SessionClosed, StoreError, error_of
from zab.runtime.session.multi import (
    Multi,
    MultiRead,
    acl_of,
    config_version_of,
    create_request,
    data_of,
    done_by_multi,
    path_of,
    read_by_multi,
    version_of,
)
from zab.runtime.session.state import SessionState, States, StateTeller
from zab.runtime.session.trees import delete_tree, ensure_path
from zab.runtime.session.watch import Watch
from zab.store.acl import OPEN, Acl
from zab.store.errors import ErrorCode
from zab.store.node import Stat
from zab.store.ops import ANY_VERSION, Fields, Op
from zab.store.paths import CONFIG, ROOT, child_of
from zab.store.watches import WatchKind, WatchMode

Servers = str | Iterable[str] | None
"""In ZooKeeper's text, one or several: `server.1=host:2888:3888;2181`."""


class Session(ABC):
    """`id` is what the store calls it, `timeout_ms` how long it may be out of reach before it is over."""

    id: int
    timeout_ms: int

    def __init__(self, state: SessionState, book: WatchBook, events_max: int) -> None:
        self._teller = StateTeller(state)
        self._book = book
        self._events_max = events_max
        self._watches: dict[Watch, None] = {}
        self._over: tuple[int, str] | None = None

    # -- what a door adds --------------------------------------------------------------------------

    @abstractmethod
    async def _ask(self, op: Op, fields: Fields, what: str, watch: Watch | None = None, *, rooted: bool = True) -> Any:
        """Returns what the protocol's reply to `op` holds, or raises.

        The moment it is answered, and before any event that comes later, `self._book.answered` is called.
        Not `rooted`: the path in it is the server's.
        """

    @abstractmethod
    def _unwatch(self, path: str, kind: WatchKind) -> None:
        """Soon, and nobody waits: the server need not watch this path (it is the server's) for this session."""

    def _at_server(self, path: str) -> str:
        """What the server calls this path."""
        return path

    @abstractmethod
    async def add_auth(self, scheme: str, credentials: bytes) -> None:
        """From now on also as somebody who knows this; `digest` takes b"user:password".

        What the server does not believe ends the session: `AuthFailed`.
        """

    # -- how it stands -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def heard_at(self) -> float:
        """On Trio's clock: at this moment, or later, the leader heard of this session. Its time there cannot be over
        before this and `timeout_ms`. A `sync` makes it new; no other answer shows that there is still a leader."""

    @property
    def state(self) -> SessionState:
        """The state of the session now."""
        return self._teller.state

    def states(self) -> States:
        """`async for state in session.states()`: the state now, then each change, in order.

        Ends behind the final state: CLOSED when the block is left or the store itself ends, EXPIRED, AUTH_FAILED;
        `over` says why. Who is slow misses the oldest of 64 changes, never the newest.
        """
        return States(self._teller)

    @property
    def over(self) -> str | None:
        """Why the session is no more."""
        return None if self._over is None else self._over[1]

    def _check(self) -> None:
        if self._over is not None:
            raise _ended(*self._over)

    def _finish(self, state: SessionState, why: str, code: int = ErrorCode.SESSION_EXPIRED) -> None:
        if self._over is None:
            self._over = code, why
            for watch in self._watches:
                watch.end(_ended(code, why))
            self._teller.tell(state)

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
        op, fields = create_request(
            path, data, acl, ephemeral=ephemeral, sequential=sequential, container=container, ttl_ms=ttl_ms
        )
        created = await self._ask(op, fields, path)
        found: str = created if op == Op.CREATE else created[0]
        return found

    async def create_with_stat(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        acl: Acl = OPEN,
    ) -> tuple[str, Stat]:
        """Make a node; return its path and its stat. The arguments are those of `create`."""
        op, fields = create_request(
            path, data, acl, ephemeral=ephemeral, sequential=sequential, container=container, ttl_ms=ttl_ms, stat=True
        )
        created: tuple[str, Stat] = await self._ask(op, fields, path)
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node; return its new stat. Raises `BadVersion` if the node is not at `version`."""
        stat: Stat = await self._ask(Op.SET_DATA, (path_of(path), data_of(data), version_of(version)), path)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children. Raises `BadVersion` if the node is not at `version`."""
        await self._ask(Op.DELETE, (path_of(path), version_of(version)), path)

    async def set_acl(self, path: str, acl: Acl, version: int = ANY_VERSION) -> Stat:
        """`version` is held against the `aversion` of the stat."""
        stat: Stat = await self._ask(Op.SET_ACL, (path_of(path), acl_of(acl), version_of(version)), path)
        return stat

    async def multi(self, operations: Multi) -> list[str | Stat | None]:
        """What each did: the path it made, the stat it left, or nothing. Raises the error of the one that failed.

        `index` of that error says which one it was.
        """
        if not isinstance(operations, Multi):
            raise TypeError(f"multi takes zab.Multi().create(...).set(...), not {type(operations).__name__}")
        return done_by_multi(operations, await self._ask(Op.MULTI, tuple(operations.operations), "multi"))

    async def reconfigure(
        self,
        *,
        joining: Servers = None,
        leaving: Servers = None,
        members: Servers = None,
        version: int = ANY_VERSION,
    ) -> tuple[bytes | None, Stat]:
        """Change who takes part: some join and leave, or all `members` are named. Returns what `config` would.

        `version` is that of the configuration which is to be changed, a hexadecimal number in its text.
        """
        fields = (_listed(joining), _listed(leaving), _listed(members), config_version_of(version))
        found: tuple[bytes | None, Stat] = await self._ask(Op.RECONFIG, fields, "reconfigure")
        return found

    # -- reads -------------------------------------------------------------------------------------
    # With a `watch`, that hears of the next change: once, and before any answer shows it.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """The node's data, and its `Stat`: versions, zxids, times. `NoNode` where there is none.

        `watch` is what `async with session.watcher() as watch` gives: it hears of the next change, once.
        """
        found: tuple[bytes | None, Stat] = await self._read(Op.GET_DATA, path, watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat of the node. With a `watch` also of one that is not there yet."""
        try:
            stat: Stat = await self._read(Op.EXISTS, path, watch)
        except NoNode:
            return None
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Their names, in no order."""
        names: list[str] = await self._read(Op.GET_CHILDREN, path, watch)
        return names

    async def children_with_stat(self, path: str, watch: Watch | None = None) -> tuple[list[str], Stat]:
        """Return the names of the children, and the stat of the node."""
        found: tuple[list[str], Stat] = await self._read(Op.GET_CHILDREN2, path, watch)
        return found

    async def config(self, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """Who takes part, in ZooKeeper's text. It is a node of the store, under whatever root the session works."""
        found: tuple[bytes | None, Stat] = await self._read(Op.GET_DATA, CONFIG, watch, rooted=False)
        return found

    async def _read(self, op: Op, path: str, watch: Watch | None, *, rooted: bool = True) -> Any:
        if watch is None:
            return await self._ask(op, (path_of(path), False), path, rooted=rooted)
        self._own(watch)
        return await self._ask(op, (path_of(path), True), path, watch, rooted=rooted)

    async def read_many(self, reads: MultiRead) -> list[tuple[bytes | None, Stat] | list[str] | StoreError]:
        """What each found, or the error that it would have raised alone. All of it is of one moment."""
        if not isinstance(reads, MultiRead):
            raise TypeError(f"read_many takes zab.MultiRead().get(...).children(...), not {type(reads).__name__}")
        return read_by_multi(reads, await self._ask(Op.MULTI_READ, tuple(reads.operations), "reads"))

    async def acl(self, path: str) -> tuple[Acl, Stat]:
        """Return the list of permissions of a node, and its stat."""
        found: tuple[Acl, Stat] = await self._ask(Op.GET_ACL, (path_of(path),), path)
        return found

    async def ephemerals(self, prefix: str = ROOT) -> list[str]:
        """Nodes of this session whose paths begin with `prefix`."""
        paths: list[str] = await self._ask(Op.GET_EPHEMERALS, (path_of(prefix),), prefix)
        return paths

    async def count_below(self, path: str) -> int:
        """All of the subtree, without the node itself."""
        count: int = await self._ask(Op.GET_ALL_CHILDREN_NUMBER, (path_of(path),), path)
        return count

    async def who_am_i(self) -> list[tuple[str, str]]:
        """(scheme, user), as the server takes this session to be."""
        return list(await self._ask(Op.WHO_AM_I, (), "who am I"))

    async def sync(self, path: str = ROOT) -> None:
        """A read after it sees every change that anybody, anywhere, had been told of before it."""
        await self._ask(Op.SYNC, (path_of(path),), path)

    # -- watches -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def watcher(self) -> AsyncIterator[Watch]:
        """For `watch=` of reads, and for `add_watch`: one place to hear of any number of nodes."""
        self._check()
        watch = Watch(self, self._events_max)
        self._watches[watch] = None
        try:
            yield watch
        finally:
            del self._watches[watch]
            watch.end(LocalProtocolError("the block of this watch is left"))
            for path, kind in self._book.drop(watch):
                self._unwatch(path, kind)

    @asynccontextmanager
    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[Watch]:
        """`async with session.watch("/a") as events`, then `async for event in events`: what happens from now on.

        To this node (created, deleted, its data set) and to its list of children. If `recursive`: to every node of the
        subtree, but nothing of lists of children. The node need not be there. It says that something has changed and
        where (`event.event`, `event.path`), not what is there now: look with `get` or `children`. Over a connection,
        `MAYBE_MISSED` says that the connection was lost and is back. For one task; ends with what ended the session.
        """
        async with self.watcher() as watch:
            await self.add_watch(path, watch, recursive=recursive)
            yield watch

    async def add_watch(self, path: str, watch: Watch, *, recursive: bool = False) -> None:
        """For as long as the watch lasts. The node need not be there."""
        self._own(watch)
        mode = WatchMode.RECURSIVE if recursive else WatchMode.PERSISTENT
        try:
            await self._ask(Op.ADD_WATCH, (path_of(path), int(mode)), path, watch)
        except trio.Cancelled:
            self._added_in_vain(path, WatchKind.RECURSIVE if recursive else WatchKind.PERSISTENT)
            raise

    async def remove_watch(self, path: str, kind: WatchKind = WatchKind.ANY) -> None:
        """Of the whole session: every `Watch` that was concerned hears of it. `NoWatcher` if there was none."""
        await self._ask(Op.REMOVE_WATCHES, (path_of(path), _kind_of(kind)), path)

    async def has_watch(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        """Whether the server watches this path for this session."""
        try:
            await self._ask(Op.CHECK_WATCHES, (path_of(path), _kind_of(kind)), path)
        except StoreError as error:
            if error.code == ErrorCode.NO_WATCHER:
                return False
            raise
        return True

    def _added_in_vain(self, path: str, kind: WatchKind) -> None:
        """The server may watch, and nobody listens."""
        path = self._at_server(path)
        if not self._book.watches(path, kind):
            self._unwatch(path, kind)

    def _own(self, watch: Watch) -> None:
        if not isinstance(watch, Watch):
            raise TypeError(
                f"a watch is what `async with session.watcher() as watch:` gives, not {type(watch).__name__}"
            )
        watch.check()
        if watch.owner is not self:
            raise LocalProtocolError("this watch belongs to another session")

    # -- in several steps --------------------------------------------------------------------------

    async def ensure_path(self, path: str, acl: Acl = OPEN) -> None:
        """The node and all above it are there. Whoever made them: `acl` is for those that this call makes."""
        await ensure_path(self, path_of(path), acl)

    async def _make_root(self, acl: Acl) -> bool:
        """Where the session's root is another node to the server, it may not be there yet."""
        return False

    async def delete_tree(self, path: str) -> None:
        """The node and all below it, leaves first; also what is added meanwhile. Nothing there: nothing to do."""
        if path_of(path) == ROOT:
            raise BadArguments(ErrorCode.BAD_ARGUMENTS, "the root cannot be deleted")
        await delete_tree(self, path)

    async def create_protected(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        token: str | None = None,
        ephemeral: bool = True,
        sequential: bool = True,
        acl: Acl = OPEN,
    ) -> str:
        """A create that does not end in doubt: when its answer is lost, it looks for what it may have made.

        The name holds a `token` that nobody else uses. Where none is given, one is made and put in front of the
        name (as Apache Curator does). Who gives one can look for the node even after cancelling: `find_token`.
        """
        parent, _, name = path_of(path).rpartition("/")
        parent = parent or ROOT
        if token is None:
            token = os.urandom(16).hex()
            name = f"_c_{token}-{name}"
        elif not token or token not in name:
            raise LocalProtocolError(f"the name {name!r} does not hold the token {token!r}")
        while True:
            try:
                return await self.create(
                    child_of(parent, name), data, ephemeral=ephemeral, sequential=sequential, acl=acl
                )
            except OutcomeUnknown:
                found = await self.find_token(parent, token)
                if found is not None:
                    return found

    async def find_token(self, parent: str, token: str) -> str | None:
        """The child of `parent` whose name holds `token`, if there is one. It sees whatever was asked for before."""
        await self.sync(parent)
        try:
            names = await self.children(parent)
        except NoNode:
            return None
        return next((child_of(parent, name) for name in names if token in name), None)


def _ended(code: int, why: str) -> StoreError:
    return SessionClosed(why) if why is LEFT else error_of(code, why)


def _listed(servers: Servers) -> str | None:
    if servers is None or isinstance(servers, str):
        return servers
    try:
        return ",".join(servers)
    except TypeError:
        raise TypeError(
            f"servers are text, or several texts, like 'server.1=host:2888:3888;2181', not {servers!r}"
        ) from None


def _kind_of(kind: WatchKind) -> int:
    try:
        return int(WatchKind(kind))
    except ValueError:
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"{kind!r}, which is no zab.WatchKind") from None
