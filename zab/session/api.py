"""A session with the store, in this process or over a connection.

    async with store.session() as session:                  # in this process
    async with zab.connect("127.0.0.1:2181") as session:    # over ZooKeeper's protocol
        await session.create("/a", b"1")
        async with session.watch("/a") as events:
            data, stat = await session.get("/a")
            async for event in events: ...

Every call returns when it is done, or raises. While no server can be reached it waits: put a deadline around it
(`trio.fail_after`) if you have one. If you cancel a change, you cannot know whether it will still be made. If the
connection is lost before the reply to a change, the call raises `OutcomeUnknown`.

Each of the two kinds of sessions implements the abstract methods here. They share most of the rest.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from zab.core.argument_names import checks_methods
from zab.core.errors import LocalProtocolError, OutcomeUnknown
from zab.session.multi import (
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
from zab.session.session_errors import LEFT, BadArguments, NoNode, SessionClosed, StoreError, as_shown, error_of
from zab.session.state import SessionState, StateChanges, States
from zab.session.trees import delete_tree, ensure_path
from zab.session.watch import Watch
from zab.session.watch_manager import WatchManager
from zab.store.acl import OPEN, Acl
from zab.store.error_codes import ErrorCode
from zab.store.operations import ANY_VERSION, Fields, Op
from zab.store.paths import CONFIG, ROOT, child_of, why_invalid
from zab.store.server_watches import WatchKind, WatchMode
from zab.store.znode import Stat

Servers = str | Iterable[str] | None
"""Servers in ZooKeeper's text, `server.1=host:2888:3888;2181`, or their ids; None if not given.

Either one text with commas between the servers, or several texts.
"""


@checks_methods
class Session(ABC):
    """A session with the store. It expires if there is no sign of its activity for `timeout_ms`.

    The leader checks this. For a local session its server does.

    After the session's end every call raises `SessionExpired`, its subclass `SessionClosed`, or `AuthFailed`. Any
    change may raise `OutcomeUnknown`, and `LocalProtocolError` if it is larger than `frame_bytes_max`. An invalid
    argument raises `BadArguments`, or `TypeError` if its type is wrong.

    In this process, any call may raise `Stopped` if the store ends, and any change `LeadersLost`.

    Over a connection, any call may raise `Throttled`. Any change and `sync` may raise `NotReadOnly`. Any call that
    changes nothing may raise `Unreachable`, and `LocalProtocolError` if it is larger than `frame_bytes_max`. A
    malformed reply raises `WireError`.

    The methods name further errors.
    """

    id: int
    """The session's id. Over a connection it may change until a server with a quorum has accepted the session."""
    timeout_ms: int
    """The timeout that the server has granted, in milliseconds."""

    def __init__(self, state: SessionState, watch_manager: WatchManager, events_max: int) -> None:
        self._state_changes = StateChanges(state)
        self._watch_manager = watch_manager
        self._events_max = events_max
        self._watches: dict[Watch, None] = {}
        self._over: tuple[int, str] | None = None

    # -- implemented by each kind of session --------------------------------------------------------------------------

    @abstractmethod
    async def _ask(self, op: Op, fields: Fields, what: str, watch: Watch | None = None, *, rooted: bool = True) -> Any:
        """Send a request, and return the body of its reply, or raise its error.

        If the request adds or removes a watch, `self._watch_manager.answered` is called when the reply arrives, before
        any later event. With `rooted`, the session's root is put in front of the paths in `fields`; without it, they
        are sent as they are.
        """

    @abstractmethod
    def _unwatch(self, path: str, kind: WatchKind) -> None:
        """Request the removal of a watch at the server, without waiting for the reply. `path` is the server's path."""

    def _at_server(self, path: str) -> str:
        """Return the path at the server for this path of the session."""
        return path

    @abstractmethod
    async def add_auth(self, scheme: str, credentials: bytes) -> None:
        """Add an identity to this session, for the permissions of ACLs.

        scheme       the scheme of the identity, such as "digest"
        credentials  the proof of the identity, in the scheme's form; for `digest` b"user:password"

        If the server rejects the credentials, the session ends and the call raises `AuthFailed`. Over a connection,
        more identities than `ClientSettings.auths_max` raise `Overloaded`.
        """

    # -- state -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def last_received_at(self) -> float:
        """The start time, on Trio's clock, of the last request that is known to have renewed this session at a leader.

        The session cannot expire before this time plus `timeout_ms`. Only the creation or attachment of the session at
        a server with a quorum and each `sync` count. The reply to a ping or a read may come from a server that has lost
        its leader. A write renews the session only with the server's next report to the leader.
        """

    @property
    def state(self) -> SessionState:
        """The state of the session now."""
        return self._state_changes.state

    def states(self) -> States:
        """Iterate over the state now and then each change, in order: `async for state in session.states()`.

        The iteration ends after a final state: EXPIRED, AUTH_FAILED or, when the block is left or the store itself
        ends, CLOSED. `over` then has the reason. A slow consumer misses changes before the last 64, never the newest.
        """
        return States(self._state_changes)

    @property
    def over(self) -> str | None:
        """The reason why the session is over; None while it lasts."""
        return None if self._over is None else self._over[1]

    def _check(self) -> None:
        if self._over is not None:
            raise _ended(*self._over)

    def _finish(self, state: SessionState, why: str, code: int = ErrorCode.SESSION_EXPIRED) -> None:
        if self._over is None:
            self._over = code, why
            for watch in self._watches:
                watch.end(_ended(code, why))
            self._state_changes.report(state)

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
        """Create a node, and return its path.

        data        the content; None and b"" differ
        ephemeral   delete the node when the session ends
        sequential  append a number of ten digits to the path: the number of children created before under this parent
        container   let the servers delete the node some time after its last child was deleted
        ttl_ms      let the servers delete the node when it has no child and its data has not changed for this time
        acl         the node's permissions: a sequence of (permissions, scheme, identity). If a function `acl` was
                    given to `zab.connect`, its result replaces the default, `zab.OPEN_ACL`

        At most one of `ephemeral`, `container` and `ttl_ms` may be given, and a container cannot be sequential.

        Raise `NodeExists`; `NoNode` if the parent does not exist; `NoChildrenForEphemerals` if the parent is ephemeral;
        `Unimplemented` if `ttl_ms` is given and the server does not permit TTL nodes; `Throttled` for the node
        `zookeeper_stats` of a quota, too soon after another one; `NoAuth`, `InvalidAcl`, `QuotaExceeded` or
        `EphemeralOnLocalSession`.
        """
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
        """Create a node; return its path and its stat. Arguments and errors are those of `create`."""
        op, fields = create_request(
            path, data, acl, ephemeral=ephemeral, sequential=sequential, container=container, ttl_ms=ttl_ms, stat=True
        )
        created: tuple[str, Stat] = await self._ask(op, fields, path)
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node; return its new stat.

        Raise `BadVersion` if the node is not at `version` (-1: any), `NoNode`, `NoAuth` or `QuotaExceeded`.
        """
        stat: Stat = await self._ask(Op.SET_DATA, (path_of(path), data_of(data), version_of(version)), path)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children.

        Raise `BadVersion` if the node is not at `version` (-1: any), `NotEmpty` if it has children, `NoNode` or
        `NoAuth`.
        """
        await self._ask(Op.DELETE, (path_of(path), version_of(version)), path)

    async def set_acl(self, path: str, acl: Acl, version: int = ANY_VERSION) -> Stat:
        """Replace the ACL of a node; return its new stat.

        Raise `BadVersion` if the `aversion` of the node's stat is not `version` (-1: any), `InvalidAcl`, `NoNode` or
        `NoAuth`.
        """
        stat: Stat = await self._ask(Op.SET_ACL, (path_of(path), acl_of(acl), version_of(version)), path)
        return stat

    async def multi(self, operations: Multi) -> list[str | Stat | None]:
        """Carry out all operations, or none. Return the result of each: the created path, the new stat, or None.

        If an operation fails, raise its error; nothing was changed. `index` of the error is the operation's number,
        from 0.
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
        """Change the membership: let servers join and leave, or name all `members`. Return what `config` then returns.

        joining  lines like `server.1=host:2888:3888;2181`, in one text with commas between them, or as several texts
        leaving  ids of servers, such as "1,2", in the same two forms
        members  lines of the whole new membership, in place of the other two
        version  the version that the membership must have, which its text shows in hexadecimal; -1: any

        Raise `ReconfigDisabled` if the servers do not let clients change the membership, `NoAuth` without the
        permission to write `/zookeeper/config`, `BadVersion`, `ReconfigInProgress`, `NewConfigNoQuorum` if the
        synchronized servers are no quorum of the new membership, `BadArguments` if the new membership is invalid, and
        `Unimplemented` if no member has an address, as in a store that was opened without an ensemble.
        In this process, raise `ZabError` after repeated failures, for example without a leader.
        """
        fields = (_listed(joining), _listed(leaving), _listed(members), config_version_of(version))
        found: tuple[bytes | None, Stat] = await self._ask(Op.RECONFIG, fields, "reconfigure")
        return found

    # With a `watch`, a read also registers for the next change. The event comes once, and before any later reply that
    # shows the change.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """Return the node's data and its `Stat`: versions, zxids, times.

        `watch` comes from `async with session.watcher() as watch`: it receives the next change of the data, or the
        deletion, once. Raise `NoNode` if the node does not exist, `NoAuth`, and `QuotaExceeded` at too many watches.
        """
        found: tuple[bytes | None, Stat] = await self._read(Op.GET_DATA, path, watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return the stat of the node, or None if it does not exist.

        A `watch` receives the node's creation, deletion, or next change of its data, once. Raise `NoAuth`, and
        `QuotaExceeded` at too many watches.
        """
        try:
            stat: Stat = await self._read(Op.EXISTS, path, watch)
        except NoNode:
            return None
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, in no particular order.

        A `watch` receives the next change of this list, or the node's deletion, once. Raise `NoNode`, `NoAuth`, and
        `QuotaExceeded` at too many watches.
        """
        names: list[str] = await self._read(Op.GET_CHILDREN, path, watch)
        return names

    async def children_with_stat(self, path: str, watch: Watch | None = None) -> tuple[list[str], Stat]:
        """Return the names of the children, and the stat of the node. Arguments and errors are those of `children`."""
        found: tuple[list[str], Stat] = await self._read(Op.GET_CHILDREN2, path, watch)
        return found

    async def config(self, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        """Return the membership in ZooKeeper's text, and the stat of its node, `/zookeeper/config` at the server."""
        found: tuple[bytes | None, Stat] = await self._read(Op.GET_DATA, CONFIG, watch, rooted=False)
        return found

    async def _read(self, op: Op, path: str, watch: Watch | None, *, rooted: bool = True) -> Any:
        if watch is None:
            return await self._ask(op, (path_of(path), False), path, rooted=rooted)
        self._own(watch)
        return await self._ask(op, (path_of(path), True), path, watch, rooted=rooted)

    async def read_many(self, reads: MultiRead) -> list[tuple[bytes | None, Stat] | list[str] | StoreError]:
        """Return the result of each read, or the error that it would raise alone. All results are of the same zxid.

        An error is an item of the list, a `StoreError`, and is not raised. If the results are too large for one reply,
        the call raises a `StoreError`.
        """
        if not isinstance(reads, MultiRead):
            raise TypeError(f"read_many takes zab.MultiRead().get(...).children(...), not {type(reads).__name__}")
        return read_by_multi(reads, await self._ask(Op.MULTI_READ, tuple(reads.operations), "reads"))

    async def acl(self, path: str) -> tuple[Acl, Stat]:
        """Return the ACL of a node, and its stat. Raise `NoNode` or `NoAuth`.

        Digests are masked for a session that may not change the ACL.
        """
        found: tuple[Acl, Stat] = await self._ask(Op.GET_ACL, (path_of(path),), path)
        return found

    async def ephemerals(self, prefix: str = ROOT) -> list[str]:
        """Return the paths of this session's ephemeral nodes that begin with the text `prefix`."""
        paths: list[str] = await self._ask(Op.GET_EPHEMERALS, (path_of(prefix),), prefix)
        return paths

    async def count_below(self, path: str) -> int:
        """Count the nodes of the subtree below `path`, without that node. Raise `NoNode` or `NoAuth`."""
        count: int = await self._ask(Op.GET_ALL_CHILDREN_NUMBER, (path_of(path),), path)
        return count

    async def who_am_i(self) -> list[tuple[str, str]]:
        """Return the identities of this session at the server, as (scheme, user)."""
        return list(await self._ask(Op.WHO_AM_I, (), "who am I"))

    async def sync(self, path: str = ROOT) -> None:
        """Wait until this server has every change that was acknowledged to any client before this call.

        Later reads see these changes, at every node: `path` does not limit the call.
        """
        await self._ask(Op.SYNC, (path_of(path),), path)

    # -- watches -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def watcher(self) -> AsyncIterator[Watch]:
        """Open a `Watch` for the `watch=` of reads and for `add_watch`.

        It is one iterator over the events of any number of nodes. The end of the block removes those of its watches
        at the server that no other `Watch` of the session needs.
        """
        self._check()
        watch = Watch(self, self._events_max)
        self._watches[watch] = None
        try:
            yield watch
        finally:
            del self._watches[watch]
            watch.end(LocalProtocolError("the block of this watch has ended"))
            for path, kind in self._watch_manager.drop(watch):
                self._unwatch(path, kind)

    @asynccontextmanager
    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[Watch]:
        """Watch a node from now on: `async with session.watch("/a") as events`, then `async for event in events`.

        Events cover the node (created, deleted, its data set) and its list of children; if `recursive`, every node of
        the subtree, but no lists of children. The node need not exist. An event names what changed and where
        (`event.event`, `event.path`), not the new state: read it with `get` or `children`. Over a connection,
        `MAYBE_MISSED` reports that the connection was lost and is back. One task may iterate at a time. The iteration
        raises the session's error when the session ends, and `EventsLost` after too many unread events.

        The server sends no events of nodes that the session may not read. Raise `QuotaExceeded` at too many watches.
        """
        async with self.watcher() as watch:
            await self.add_watch(path, watch, recursive=recursive)
            yield watch

    async def add_watch(self, path: str, watch: Watch, *, recursive: bool = False) -> None:
        """Add a node to a watch, for as long as the watch lasts. The node need not exist.

        `recursive` and the errors are those of `Session.watch`. If the watch is over, raise the error that ended it;
        if it belongs to another session, raise `LocalProtocolError`.
        """
        self._own(watch)
        if why := why_invalid(path_of(path)):
            raise BadArguments(ErrorCode.BAD_ARGUMENTS, as_shown(path), why)
        mode = WatchMode.RECURSIVE if recursive else WatchMode.PERSISTENT
        try:
            await self._ask(Op.ADD_WATCH, (path, int(mode)), path, watch)
        except trio.Cancelled:
            self._added_in_vain(path, WatchKind.RECURSIVE if recursive else WatchKind.PERSISTENT)
            raise

    async def remove_watch(self, path: str, kind: WatchKind = WatchKind.ANY) -> None:
        """Remove the watches of the whole session on a path. Every affected `Watch` gets an event.

        `kind` limits the call to one kind of watches. Raise `NoWatcher` if there are none.
        """
        await self._ask(Op.REMOVE_WATCHES, (path_of(path), _kind_of(kind)), path)

    async def has_watch(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        """Return whether the server has a watch of this kind on this path for this session."""
        try:
            await self._ask(Op.CHECK_WATCHES, (path_of(path), _kind_of(kind)), path)
        except StoreError as error:
            if error.code == ErrorCode.NO_WATCHER:
                return False
            raise
        return True

    def _added_in_vain(self, path: str, kind: WatchKind) -> None:
        """Remove a watch whose `add_watch` was cancelled: the server may add it all the same.

        Do nothing if the session has a watch of this kind on the path already.
        """
        path = self._at_server(path)
        if not self._watch_manager.watches(path, kind):
            self._unwatch(path, kind)

    def _own(self, watch: Watch) -> None:
        if not isinstance(watch, Watch):
            raise TypeError(
                f"a watch comes from `async with session.watcher() as watch:`; this is a {type(watch).__name__}"
            )
        watch.check()
        if watch.owner is not self:
            raise LocalProtocolError("this watch belongs to another session")

    # -- operations of several requests ------------------------------------------------------------

    async def ensure_path(self, path: str, acl: Acl = OPEN) -> None:
        """Create the node and all missing nodes above it. `acl` applies to those that this call creates.

        Existing nodes are no error. If the call fails, some of the nodes may have been created.
        """
        await ensure_path(self, path_of(path), acl, self._make_root)

    async def _make_root(self, acl: Acl) -> bool:
        """Create this session's root node and its ancestors. Return False if the session has no root of its own."""
        return False

    async def delete_tree(self, path: str) -> None:
        """Delete the node and all nodes below it, including those that are added meanwhile. The node need not exist.

        Large trees are deleted in several requests: if the call fails, some of the nodes may be gone. Raise
        `BadArguments` for the root, and `NoAuth`.
        """
        if path_of(path) == ROOT:
            raise BadArguments(ErrorCode.BAD_ARGUMENTS, path, "the root cannot be deleted")
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
        """Create a node, and return its path. If the reply is lost, look for the node, and repeat the create if needed.

        The name contains a unique `token`. If none is given, a random one is put in front of the name, as Apache
        Curator does. With a token of your own you can find the node even after cancelling: `find_token`. The node is
        `ephemeral` and `sequential` by default. The other arguments and the errors are those of `create`, without
        `OutcomeUnknown`. Raise `LocalProtocolError` if the given token is empty or the name does not contain it.
        """
        parent, _, name = path_of(path).rpartition("/")
        parent = parent or ROOT
        if token is None:
            token = os.urandom(16).hex()
            name = f"_c_{token}-{name}"
        elif not token:
            raise LocalProtocolError("the token is empty: give a unique one, or none")
        elif token not in name:
            raise LocalProtocolError(f"the name {name!r} does not contain the token {token!r}")
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
        """Return the path of the child of `parent` whose name contains `token`; None if there is no such node.

        The result reflects all earlier changes of any client, also those of cancelled calls of this session.
        """
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
            f"servers must be text, or several texts, like 'server.1=host:2888:3888;2181', not {servers!r}"
        ) from None


def _kind_of(kind: WatchKind) -> int:
    try:
        return int(WatchKind(kind))
    except ValueError:
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, f"kind {kind!r}", "expected a zab.WatchKind") from None
