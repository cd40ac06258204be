"""The whole state as chunks of bytes: exact at one zxid, and encoded while later transactions are applied.

A new `StoreSnapshot` copies the list of paths. Its iteration looks up the nodes later, perhaps in another thread. A
mark in the tree keeps the old version of each node that is replaced or deleted after the start. So the node of a path
at the start is in the mark, or, if it has not changed, still in the tree.

    chunk 0    [version, zxid, secret, [(session, timeout_ms, server), ...]]
    chunk 1..  [[acl, ...], [node, ...]]     ACLs that no earlier chunk contains, then nodes
    the last   [number of nodes, digest]

A node is (path, data, number of its ACL, czxid, ctime, mzxid - czxid, pzxid - czxid, mtime - ctime, version, cversion,
aversion, owner). Most differences are 0. A 0 takes one byte in the chunk, and `read` makes no new number object for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from weakref import ref

import msgpack

from zab.core.errors import DamagedError
from zab.store.acl import Acl, decode_acl, encode_acl
from zab.store.paths import UNDELETABLE
from zab.store.session_table import SessionTable
from zab.store.tree import Mark, Tree
from zab.store.znode import Znode

VERSION: Final = 1
CHUNK_NODES: Final = 512
CHUNK_BYTES: Final = 256 << 10
"""The size of paths and data at which a chunk is complete: it ends with the node that reaches this size."""

_UNTOUCHED: Final = object()


class ChunkPacker:
    """Makes the chunks of one snapshot, in their order: `head`, then `nodes` until there are none, then `tail`."""

    def __init__(self) -> None:
        self._pack = msgpack.Packer().pack
        self._numbers: dict[Acl, int] = {}
        """The numbers of the ACLs that occurred so far."""
        self._count = 0
        """The number of nodes in all chunks so far."""

    def head(self, version: int, zxid: int, secret: bytes, sessions: list[tuple[int, int, int]]) -> bytes:
        """Return the first chunk. A session is (session, timeout in ms, server)."""
        packed: bytes = self._pack((version, zxid, secret, sessions))
        return packed

    def nodes(self, paths: Iterable[str], node_of: Callable[[str], Znode]) -> tuple[bytes, int]:
        """Return a chunk of the nodes with these paths, and their number. One that reaches `CHUNK_BYTES` is the last.

        `node_of` is called once for each of these paths, in their order.
        """
        numbers = self._numbers
        lists: list[bytes] = []
        nodes: list[tuple[Any, ...]] = []
        size = 0
        for path in paths:
            data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, _ = node_of(path)
            number = numbers.get(acl)
            if number is None:
                number = numbers[acl] = len(numbers)
                lists.append(encode_acl(acl))
            nodes.append((
                path, data, number, czxid, ctime, mzxid - czxid, pzxid - czxid, mtime - ctime,
                version, cversion, aversion, owner,
            ))  # fmt: skip
            size += len(path) + (0 if data is None else len(data))
            if size >= CHUNK_BYTES:
                break
        self._count += len(nodes)
        packed: bytes = self._pack((lists, nodes))
        return packed, len(nodes)

    def tail(self, digest: int) -> bytes:
        packed: bytes = self._pack((self._count, digest))
        return packed


class StoreSnapshot:
    """The state at one zxid, to be iterated once, in any thread; before, it may be looked at with `peek`."""

    def __init__(self, tree: Tree, sessions: SessionTable, zxid: int, digest: int) -> None:
        self.zxid = zxid
        self.done = False
        """True once the iteration has ended: the mark is no longer needed."""
        self._nodes = tree.nodes
        self._mark: Mark = {}
        """The old versions of the nodes that were replaced or deleted since the start."""
        tree.marks.append(self._mark)
        self.paths = list(tree.nodes)
        """The paths at the start, in the tree's order.

        The iteration consumes the list: freeing a million entries at once would block the event loop for a tenth of a
        second.
        """
        self._digest = digest
        table = [(session, timeout_ms, server) for session, (timeout_ms, server) in sessions.table.items()]
        self._first = (VERSION, zxid, sessions.secret, table)

    @property
    def mark(self) -> Mark:
        return self._mark

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks(self.paths)
        finally:
            self.done = True

    def peek(self) -> Iterator[bytes]:
        """Iterate over the chunks, before the iteration that ends the snapshot."""
        return self._chunks(list(self.paths))

    def _chunks(self, paths: list[str]) -> Iterator[bytes]:
        """Yield the chunks, and use up the list."""
        packer = ChunkPacker()
        yield packer.head(*self._first)
        paths.reverse()
        while paths:
            packed, count = packer.nodes(paths[: -CHUNK_NODES - 1 : -1], self._at_first)
            del paths[-count:]
            yield packed
        yield packer.tail(self._digest)

    def _at_first(self, path: str) -> Znode:
        # The order matters. A change writes to the mark first and to the tree second. Reading the tree first and the
        # mark second therefore finds the old node in one of them.
        node: Any = self._nodes.get(path)
        old: Any = self._mark.get(path, _UNTOUCHED)
        found: Znode = node if old is _UNTOUCHED else old
        return found


class OpenSnapshots:
    """The snapshots whose marks are in the tree. `sweep` removes the marks of those that have ended or were dropped."""

    def __init__(self) -> None:
        self._marks: list[tuple[ref[StoreSnapshot], Mark]] = []
        """Weak references to snapshots, and their marks. The reference of a dropped snapshot is dead."""

    def __len__(self) -> int:
        return len(self._marks)

    def begin(self, tree: Tree, sessions: SessionTable, zxid: int, digest: int) -> StoreSnapshot:
        self.sweep(tree)
        snapshot = StoreSnapshot(tree, sessions, zxid, digest)
        self._marks.append((ref(snapshot), snapshot.mark))
        return snapshot

    def sweep(self, tree: Tree) -> None:
        """Remove the marks of ended and dropped snapshots. Call this only in the thread that changes the tree."""
        kept = []
        for reference, mark in self._marks:
            snapshot = reference()
            if snapshot is None or snapshot.done:
                tree.marks[:] = [each for each in tree.marks if each is not mark]
            else:
                kept.append((reference, mark))
        self._marks = kept


def read(chunks: Iterable[bytes]) -> tuple[Tree, SessionTable, int, int]:
    """Return the tree, the sessions, the zxid, and the digest that the tree must have: the caller compares it.

    Raise `DamagedError` if the chunks are not a whole snapshot.
    """
    try:
        return _read(iter(chunks))
    except DamagedError:
        raise
    except Exception as wrong:
        raise DamagedError(f"this is not a snapshot of a store: {wrong!r}") from wrong


def read_head(chunk: bytes) -> tuple[int, SessionTable]:
    """Return the zxid and the sessions of the first chunk.

    Raise `DamagedError` if its format has another version. A malformed chunk may raise any exception.
    """
    version, zxid, secret, table = msgpack.unpackb(chunk, use_list=False)
    if version != VERSION:
        raise DamagedError(f"the snapshot has version {version} of the format; this program reads version {VERSION}")
    sessions = SessionTable()
    sessions.secret = secret
    sessions.table = {session: (timeout_ms, server) for session, timeout_ms, server in table}
    return zxid, sessions


def read_nodes(chunk: bytes, lists: list[Acl]) -> Iterator[tuple[str, Znode]] | int:
    """Return the nodes of a chunk that is not the first, or the digest if it is the last.

    The children of the nodes are not counted yet. `lists` holds the ACLs of the earlier chunks; those of this chunk are
    added, even if the nodes are not consumed.
    """
    first, second = msgpack.unpackb(chunk, use_list=False)
    if type(first) is int:
        return int(second)
    lists += map(decode_acl, first)
    return _nodes(second, lists)


def _nodes(packed: Iterable[Any], lists: list[Acl]) -> Iterator[tuple[str, Znode]]:
    for path, data, number, czxid, ctime, mzxid, pzxid, mtime, version, cversion, aversion, owner in packed:
        yield path, (
            data, lists[number], czxid, czxid + mzxid, ctime, ctime + mtime,
            version, cversion, aversion, owner, czxid + pzxid, 0,
        )  # fmt: skip


def _read(chunks: Iterator[bytes]) -> tuple[Tree, SessionTable, int, int]:
    zxid, sessions = read_head(next(chunks))
    tree = Tree.blank()
    lists: list[Acl] = []
    count = 0
    for chunk in chunks:
        first, second = msgpack.unpackb(chunk, use_list=False)
        if type(first) is int:
            if not first == count == len(tree):
                raise DamagedError(f"the snapshot announces {first} nodes, but has {count} at {len(tree)} paths")
            if next(chunks, None) is not None:
                raise DamagedError("the snapshot has further chunks after its last one")
            if missing := UNDELETABLE - tree.nodes.keys():
                raise DamagedError(f"the snapshot lacks nodes that always exist: {', '.join(sorted(missing))}")
            _count_children(tree)
            return tree, sessions, zxid, second
        lists += map(decode_acl, first)
        count += len(second)
        load = tree.load
        for path, data, number, czxid, ctime, mzxid, pzxid, mtime, version, cversion, aversion, owner in second:
            # In most nodes the three zxids are equal, and so are the two times: let equal numbers share one object.
            load(path, (
                data, lists[number], czxid, czxid + mzxid if mzxid else czxid, ctime, ctime + mtime if mtime else ctime,
                version, cversion, aversion, owner, czxid + pzxid if pzxid else czxid, 0,
            ))  # fmt: skip
    raise DamagedError("the snapshot ends before its last chunk")


def _count_children(tree: Tree) -> None:
    nodes = tree.nodes
    for path, names in tree.children.items():
        nodes[path] = (*nodes[path][:11], len(names))
