"""Answer reads from the applied state of one server, and register the watch that goes with the answer.

A read and the registration of its watch are one step, so that no change can come in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from zab.store.acl import ADMIN, OPEN, READ, Access, Acl, allows, masked, user_of
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.paths import ROOT
from zab.store.server_watches import EventType, ServerWatches, Watcher, WatchKind, WatchMode, weight_of_all
from zab.store.tree import Tree
from zab.store.znode import CHILDREN, MZXID, PZXID, Znode


class Client(Watcher, Protocol):
    """The connection, or the session in this process, that sent the request."""

    @property
    def session(self) -> int: ...


ReadResult: TypeAlias = tuple[int, Any]
"""(error, value), by operation:

    EXISTS, GET_DATA                  node
    GET_CHILDREN, GET_CHILDREN2       (names, node)
    GET_ACL                           (acl, node)
    GET_EPHEMERALS                    paths
    GET_ALL_CHILDREN_NUMBER           int
    MULTI_READ                        [(op, error, value), ...]
    WHO_AM_I                          [(scheme, user), ...]

The value is None for every other operation, and with every error. `znode.stat_fields` makes a stat of a node. A node is
an immutable tuple, so anything derived from it stays valid until a change puts another tuple in its place.
"""

_OK: Final = 0
_NO_NODE: Final = (int(ErrorCode.NO_NODE), None)
_NO_AUTH: Final = (int(ErrorCode.NO_AUTH), None)
_DONE: Final = (_OK, None)
_BAD_ARGUMENTS: Final = (int(ErrorCode.BAD_ARGUMENTS), None)
_UNREADABLE: Final = (int(ErrorCode.MARSHALLING_ERROR), None)
"""The answer to an unknown kind or mode of a watch, and to a multiRead with an operation that it may not contain.

ZooKeeper treats such a request like an incomplete body.
"""


TOO_LARGE: Final[ReadResult] = (int(ErrorCode.MARSHALLING_ERROR), None)
"""The answer to a multiRead whose reply would exceed its limit.

Compared by identity, because an unreadable request has the same code.
"""

NO_ROOM: Final[ReadResult] = (int(ErrorCode.QUOTA_EXCEEDED), None)
"""The answer to a request that would exceed the watch limit of its client or of the server. Compared by identity."""

PART_BYTES: Final = 81
"""The bytes of a GET_DATA result in a multiRead's reply without the data: header, length and stat.

An error, or a result of GET_CHILDREN without its names, is shorter but counts as much.
"""
NAME_BYTES: Final = 4


class ReadHandler:
    """Reads of the applied tree. A method does what its operation needs: check the ACL, add the watch, read."""

    __slots__ = ("_access", "_handlers", "_nodes", "_tree", "_watches", "multi_read_bytes_max", "work")

    def __init__(
        self, tree: Tree, watches: ServerWatches, access: Access, multi_read_bytes_max: int | None = None
    ) -> None:
        self._access = access
        self.multi_read_bytes_max = multi_read_bytes_max
        """The approximate limit of the bytes of one multiRead's reply; None: no limit."""
        self.work = 0
        """The approximate number of nodes and names that long reads have visited since the caller set this to 0."""
        self._watches = watches
        self.switch_to(tree)
        self._handlers: dict[int, Callable[[Fields, Client], ReadResult]] = {
            Op.GET_DATA: lambda fields, client: self.get_data(client, *fields),
            Op.EXISTS: lambda fields, client: self.exists(client, *fields),
            Op.GET_CHILDREN: lambda fields, client: self.get_children(client, *fields),
            Op.GET_CHILDREN2: lambda fields, client: self.get_children(client, *fields),
            Op.GET_ACL: lambda fields, client: self.get_acl(client, *fields),
            Op.GET_EPHEMERALS: lambda fields, client: self.get_ephemerals(client, *fields),
            Op.GET_ALL_CHILDREN_NUMBER: lambda fields, client: self.count_below(client, *fields),
            Op.MULTI_READ: lambda fields, client: self.multi_read(client, fields),
            Op.CHECK_WATCHES: lambda fields, client: self.check_watches(client, *fields),
            Op.REMOVE_WATCHES: lambda fields, client: self.remove_watches(client, *fields),
            Op.ADD_WATCH: lambda fields, client: self.add_watch(client, *fields),
            Op.SET_WATCHES: lambda fields, client: self.set_watches(client, *fields),
            Op.SET_WATCHES2: lambda fields, client: self.set_watches(client, *fields),
            Op.WHO_AM_I: lambda fields, client: self.who_am_i(client),
        }

    def switch_to(self, tree: Tree) -> None:
        """Read another tree from now on."""
        self._tree = tree
        self._nodes = tree.nodes

    def read(self, op: int, fields: Fields, client: Client) -> ReadResult:
        handler = self._handlers.get(op)
        if handler is None:
            return int(ErrorCode.UNIMPLEMENTED), None
        return handler(fields, client)

    def _allows(self, acl: Acl, wanted: int, client: Client) -> bool:
        return acl is OPEN or self._access.skip or allows(acl, wanted, client.identities, self._access)

    # -- nodes -------------------------------------------------------------------------------------

    def get_data(self, client: Client, path: str, watch: bool) -> ReadResult:
        node = self._nodes.get(path)
        if node is None:
            return _NO_NODE
        acl = node[1]
        if acl is not OPEN and not self._allows(acl, READ, client):
            return _NO_AUTH
        if watch and not self._watches.watch_data(path, client):
            return NO_ROOM
        return _OK, node

    def exists(self, client: Client, path: str, watch: bool) -> ReadResult:
        node = self._nodes.get(path)
        if node is None:
            if "\0" in path:
                return _BAD_ARGUMENTS
        elif node[1] is not OPEN and not self._allows(node[1], READ, client):
            return _NO_AUTH
        if watch and not self._watches.watch_data(path, client):  # a missing node can be watched
            return NO_ROOM
        return _NO_NODE if node is None else (_OK, node)

    def get_children(self, client: Client, path: str, watch: bool) -> ReadResult:
        node = self._nodes.get(path)
        if node is None:
            return _NO_NODE
        if node[1] is not OPEN and not self._allows(node[1], READ, client):
            return _NO_AUTH
        if watch and not self._watches.watch_children(path, client):
            return NO_ROOM
        self.work += node[CHILDREN]
        return _OK, (self._tree.children_of(path), node)

    def get_acl(self, client: Client, path: str) -> ReadResult:
        node = self._nodes.get(path)
        if node is None:
            return _NO_NODE
        acl = node[1]
        if not self._allows(acl, READ | ADMIN, client):
            return _NO_AUTH
        return _OK, (acl if self._allows(acl, ADMIN, client) else masked(acl), node)

    def count_below(self, client: Client, path: str) -> ReadResult:
        node = self._nodes.get(path)
        if node is None:
            return _NO_NODE
        if not self._allows(node[1], READ, client):
            return _NO_AUTH
        self.work += len(self._tree.children)
        return _OK, self._tree.count_below(path)

    def get_ephemerals(self, client: Client, prefix: str | None) -> ReadResult:
        paths = self._tree.ephemerals.get(client.session, {})
        self.work += len(paths)
        if prefix is None or not prefix.strip() or prefix == ROOT:
            return _OK, list(paths)
        return _OK, [path for path in paths if path.startswith(prefix)]

    def multi_read(self, client: Client, fields: Fields) -> ReadResult:
        """Answer each operation on its own. Only GET_DATA and GET_CHILDREN are allowed.

        As in ZooKeeper, no operation adds a watch, even if it asks for one.
        """
        if any(op not in (Op.GET_DATA, Op.GET_CHILDREN) for op, _ in fields):
            return _UNREADABLE
        room = self.multi_read_bytes_max
        self.work += len(fields)
        parts: list[tuple[int, int, Any]] = []
        for op, (path, _) in fields:
            error, value = self._handlers[op]((path, False), client)
            parts.append((op, error, value))
            if room is not None:
                room -= PART_BYTES if error else PART_BYTES + _size(op, value)
                if room < 0:
                    return TOO_LARGE
        return _OK, parts

    def who_am_i(self, client: Client) -> ReadResult:
        return _OK, [(identity[0], user_of(identity)) for identity in client.identities]

    # -- watches -----------------------------------------------------------------------------------

    def add_watch(self, client: Client, path: str, mode: int) -> ReadResult:
        if mode not in (WatchMode.PERSISTENT, WatchMode.RECURSIVE):
            return _UNREADABLE
        return _DONE if self._watches.add(path, client, mode) else NO_ROOM

    def check_watches(self, client: Client, path: str, kind: int) -> ReadResult:
        return self._removal(path, kind, client, self._watches.has)

    def remove_watches(self, client: Client, path: str, kind: int) -> ReadResult:
        return self._removal(path, kind, client, self._watches.remove)

    def _removal(self, path: str, kind: int, client: Client, act: Callable[[str, Watcher, int], bool]) -> ReadResult:
        if not WatchKind.CHILDREN <= kind <= WatchKind.RECURSIVE:
            return _UNREADABLE
        return _DONE if act(path, client, kind) else (int(ErrorCode.NO_WATCHER), None)

    def set_watches(
        self,
        client: Client,
        seen: int,
        data: Sequence[str],
        exist: Sequence[str],
        child: Sequence[str],
        persistent: Sequence[str] = (),
        recursive: Sequence[str] = (),
    ) -> ReadResult:
        """Add the watches of a client that has reconnected, and fire each one-shot watch whose event the client missed.

        The rule of ZooKeeper's DataTree.setWatches: a one-shot watch fires at once if its node was deleted, created or
        changed after zxid `seen`; otherwise it is added. Persistent and recursive watches are added, and do not fire
        for changes since `seen`. Do nothing and return `NO_ROOM` if the limits have no room for all watches.
        """
        nodes, watches = self._nodes, self._watches
        more = sum(map(weight_of_all, (data, exist, child, persistent, persistent, recursive)))
        if not watches.has_room(client, more):
            return NO_ROOM
        self.work += len(data) + len(exist) + len(child) + len(persistent) + len(recursive)
        data_paths, child_paths = [], []
        for path in data:
            node = nodes.get(path)
            if node is None:
                self._deliver(client, EventType.DELETED, path, None)
            elif node[MZXID] > seen:
                self._deliver(client, EventType.DATA_CHANGED, path, node)
            else:
                data_paths.append(path)
        for path in exist:
            node = nodes.get(path)
            if node is None:
                data_paths.append(path)
            else:
                self._deliver(client, EventType.CREATED, path, node)
        for path in child:
            node = nodes.get(path)
            if node is None:
                self._deliver(client, EventType.DELETED, path, None)
            elif node[PZXID] > seen:
                self._deliver(client, EventType.CHILDREN_CHANGED, path, node)
            else:
                child_paths.append(path)
        watches.add_all(client, data_paths, child_paths, persistent, recursive)
        return _DONE

    def _deliver(self, client: Client, event: EventType, path: str, node: Znode | None) -> None:
        """Deliver an event if the client may read the node, or if the node is gone.

        The event's zxid is -1, because that of the change is no longer known.
        """
        if node is None or self._allows(node[1], READ, client):
            self._watches.deliver([client], event, path, -1)


def _size(op: int, value: Any) -> int:
    """Return a lower bound of the bytes of a result's data or names: at least a quarter of the real number."""
    if op == Op.GET_DATA:
        return len(value[0] or b"")
    names = value[0]
    return sum(map(len, names)) + NAME_BYTES * len(names)
