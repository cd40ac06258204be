"""The state that follows a SNAP packet: sessions, ACLs and nodes as in a snapshot file, then a signature.

    count, sessions, count, ACLs, nodes, end mark, "BenWasHere"

There are no checksums, no digest and no length. So only the content tells where the state ends and packets begin again.
`SnapshotStream` takes the bytes as they arrive, and makes chunks of a snapshot of our store of them: nothing but the
current node, the ACLs and the unfinished chunk is held. `encode_state` makes the bytes from such chunks.

The leader's state changes while the leader writes it. So a state may already contain parts of later transactions, which
then arrive and are applied once more; a node may have an ACL that is not in the list, because the leader had written
the list before it got the ACL. This server gives such a node the ACL `NOBODY` until it applies the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Final

from zab.core.errors import DamagedError, WireError
from zab.core.zxid import Zxid
from zab.store.acl import OPEN, Acl, AclEntry, intern
from zab.store.digest import digest_of
from zab.store.paths import ROOT, is_valid
from zab.store.session_table import NO_SERVER
from zab.store.store_snapshot import CHUNK_BYTES, CHUNK_NODES, VERSION, ChunkPacker
from zab.store.tree import Tree
from zab.store.znode import Znode
from zab.wire.client.acl_codec import decode_acl
from zab.wire.disk_snapshot import OPEN_KEY, FileNode, decode_node, state_parts
from zab.wire.disk_store import NOBODY, departing_state
from zab.wire.jute import INT, STRUCT_ERRORS, text

SIGNATURE: Final = text("BenWasHere")
PIECE_BYTES: Final = 1 << 16
"""The approximate size of the pieces of `encode_state`."""
RECORD_BYTES_MAX: Final = 4 << 20
"""The default for the largest node."""
ACL_ENTRIES_MAX: Final = 1 << 16
"""The largest number of entries in one ACL."""
ACLS_MAX: Final = 1 << 20
"""The largest number of ACLs. Unlike nodes they are all in memory."""
SESSIONS_MAX: Final = 1 << 22
_SESSION: Final = Struct(">qi")
_ACL_HEAD: Final = Struct(">qi")
_STAT_BYTES: Final = 68
"""The bytes of a node after its data: the number of its ACL, and its stat."""
_ONE: Final = INT.pack(1)
_DIGEST_MASK: Final = (1 << 64) - 1


class _Incomplete(Exception):
    """The next element of the state has not arrived as a whole."""


class SnapshotStream:
    """One state, as it arrives. After a `WireError` nothing more can be read from the stream."""

    def __init__(self, zxid: Zxid, record_bytes_max: int = RECORD_BYTES_MAX) -> None:
        self.rest: bytes | None = None
        """The bytes after the signature, once it has arrived; None before."""
        self._bytes_max = record_bytes_max
        self._zxid = zxid
        self._held = bytearray()
        self._at = 0
        """The offset in `_held` of the first element that is not read."""
        self._needed = 0
        """The number of bytes from there without which the element cannot be complete."""
        self._step: Callable[[], bytes | None] = self._read_session_count
        self._left = 0
        """The number of sessions, or of entries of the current ACL, that follow."""
        self._acls_left = 0
        """The number of ACLs that follow."""
        self._sessions: list[tuple[int, int, int]] = []
        self._acls: dict[int, Acl] = {OPEN_KEY: OPEN}
        self._key = 0
        """The number of the current ACL."""
        self._entries: list[AclEntry] = []
        self._packer = ChunkPacker()
        self._paths: list[str] = []
        """The paths of the nodes of the chunk that is being made."""
        self._nodes: list[Znode] = []
        """These nodes, in the same order."""
        self._nodes_size = 0
        """The size of their paths and data."""
        self._digest = 0
        self._missing = dict(Tree().nodes)
        """The nodes that every state of ours has, and that have not arrived."""
        self._is_first = True

    @property
    def held_bytes(self) -> int:
        return len(self._held) - self._at

    def feed(self, data: bytes) -> list[bytes]:
        """Return the chunks that are complete now. Raise `WireError` if the bytes are not a state."""
        assert self.rest is None, "the state is complete"
        if self._at:
            del self._held[: self._at]
            self._at = 0
        self._held += data
        chunks: list[bytes] = []
        if len(self._held) < self._needed:
            return chunks
        self._needed = 0
        try:
            while self.rest is None:
                chunk = self._step()
                if chunk is not None:
                    chunks.append(chunk)
        except _Incomplete:
            pass
        return chunks

    # -- sessions and ACLs -------------------------------------------------------------------------

    def _read_session_count(self) -> None:
        self._left = self._count("sessions", SESSIONS_MAX)
        self._step = self._read_session

    def _read_session(self) -> bytes | None:
        if not self._left:
            self._step = self._read_acl_count
            return self._packer.head(VERSION, self._zxid, b"", self._sessions)
        session, timeout_ms = _SESSION.unpack(self._take(_SESSION.size))
        self._sessions.append((session, timeout_ms, NO_SERVER))
        self._left -= 1
        return None

    def _read_acl_count(self) -> None:
        self._acls_left = self._count("ACLs", ACLS_MAX)
        self._step = self._read_acl

    def _read_acl(self) -> None:
        if not self._acls_left:
            self._step = self._read_node
            return
        self._key, count = _ACL_HEAD.unpack(self._take(_ACL_HEAD.size))
        self._acls_left -= 1
        self._left = self._checked("entries of an ACL", max(count, 0), ACL_ENTRIES_MAX)
        self._entries = []
        self._step = self._read_entry

    def _read_entry(self) -> None:
        if not self._left:
            self._acls[self._key] = intern(tuple(self._entries))
            self._step = self._read_acl
            return
        scheme = self._length_at(4)
        identity = self._length_at(8 + scheme)
        raw = self._take(12 + scheme + identity)
        try:
            acl, _ = decode_acl(_ONE + raw, 0)
        except STRUCT_ERRORS as error:
            raise WireError(f"a snapshot has an invalid ACL: {error}") from error
        assert acl is not None
        self._entries += acl
        self._left -= 1

    # -- nodes -------------------------------------------------------------------------------------

    def _read_node(self) -> bytes | None:
        path_bytes = self._length_at(0)
        if path_bytes == 1 and self._byte_at(4) == 47:
            self._take(5)
            self._step = self._finish
            return None
        data_bytes = self._length_at(4 + path_bytes)
        raw = self._take(8 + path_bytes + data_bytes + _STAT_BYTES)
        try:
            node, _ = decode_node(raw, 0)
        except (DamagedError, *STRUCT_ERRORS) as error:
            raise WireError(f"a snapshot has an invalid node: {error}") from error
        assert node is not None
        self._add(*self._translated(node))
        full = self._nodes_size >= CHUNK_BYTES or len(self._nodes) >= CHUNK_NODES
        return self._chunk() if full else None

    def _translated(self, node: FileNode) -> tuple[str, Znode]:
        path = node.path or ROOT
        if self._is_first != (path == ROOT) or not is_valid(path):
            raise WireError(f"a snapshot has the node {node.path!r:.100} at a wrong place, or with an invalid path")
        self._is_first = False
        acl = self._acls.get(node.acl_key, NOBODY)
        *head, pzxid = node.stat
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner = head
        return path, (node.data, acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, 0)

    def _add(self, path: str, node: Znode) -> None:
        self._missing.pop(path, None)
        self._digest += digest_of(path, node)
        self._paths.append(path)
        self._nodes.append(node)
        self._nodes_size += len(path) + len(node[0] or b"")

    def _chunk(self) -> bytes | None:
        """Return the chunk of the nodes that are held, or None if there are none."""
        if not self._paths:
            return None
        paths, nodes = self._paths, iter(self._nodes)
        self._paths, self._nodes, self._nodes_size = [], [], 0
        packed, count = self._packer.nodes(paths, lambda path: next(nodes))
        assert count == len(paths), "only the last node may make a chunk complete"
        return packed

    def _finish(self) -> bytes | None:
        """Read the signature, and return the chunk with the last nodes."""
        signature = self._take(len(SIGNATURE))
        if signature != SIGNATURE:
            raise WireError(f"a snapshot ends with {signature!r}, not with its signature")
        if self._is_first:
            raise WireError("a snapshot has no nodes")
        self._step = self._finish_missing
        return self._chunk()

    def _finish_missing(self) -> bytes | None:
        """Return a chunk with the nodes that every state has and that did not arrive, if there are any."""
        for path, node in list(self._missing.items()):
            self._add(path, node)
        self._step = self._read_tail
        return self._chunk()

    def _read_tail(self) -> bytes:
        self.rest = bytes(self._held[self._at :])
        self._held.clear()
        self._at = 0
        return self._packer.tail(self._digest & _DIGEST_MASK)

    # -- bytes -------------------------------------------------------------------------------------

    def _has(self, count: int) -> bool:
        return len(self._held) - self._at >= count

    def _need(self, count: int) -> None:
        """Raise `_Incomplete` unless `count` bytes of the current element are here; `WireError` if it is too large."""
        if count > self._bytes_max:
            raise WireError(f"an element of a snapshot has {count} bytes or more: {self._bytes_max} are allowed")
        if not self._has(count):
            self._needed = count
            raise _Incomplete

    def _take(self, count: int) -> bytes:
        self._need(count)
        start, self._at = self._at, self._at + count
        return bytes(self._held[start : self._at])

    def _byte_at(self, offset: int) -> int:
        self._need(offset + 1)
        return self._held[self._at + offset]

    def _length_at(self, offset: int) -> int:
        """Return the length at this offset of the current element; 0 for null."""
        self._need(offset + 4)
        (length,) = INT.unpack_from(self._held, self._at + offset)
        return 0 if length == -1 else self._checked("bytes", length, self._bytes_max)

    def _count(self, what: str, most: int) -> int:
        (count,) = INT.unpack(self._take(4))
        return self._checked(what, int(count), most)

    def _checked(self, what: str, count: int, most: int) -> int:
        if not 0 <= count <= most:
            raise WireError(f"a snapshot announces {count} {what}: 0 to {most} are allowed")
        return count


def encode_state(again: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the bytes that follow a SNAP packet, without the signature, made from a snapshot of our store.

    `again()` returns the snapshot's chunks from the beginning. They are read twice, because the ACLs come before the
    nodes.
    """
    state = departing_state(again)
    held = bytearray()
    for part in state_parts(state.sessions, state.acls, state.nodes):
        held += part
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)
