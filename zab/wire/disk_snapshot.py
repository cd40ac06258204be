"""ZooKeeper's snapshot files: sessions, ACLs, nodes, and checksums after them.

    header, sessions, ACLs, nodes, checksum [, digest, checksum] [, zxid, checksum]

A checksum is the Adler-32 of everything before it. Only the length of the rest tells which of the last two sections are
present. ZooKeeper takes a snapshot while the tree changes. So the file holds the state as of the zxid in its *name*,
and possibly parts of later changes. Replaying the log after that zxid completes these changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

from zab.core.errors import DamagedError
from zab.store.acl import Acl
from zab.wire.client.acl_codec import decode_acl, encode_acl
from zab.wire.disk_source import RECORD_BYTES_MAX, Source
from zab.wire.jute import INT, LONG, STRUCT_ERRORS, lenient, text

_FILE_HEAD: Final = Struct(">4siq")
_SESSION: Final = Struct(">qi")
_KEY_AND_STAT: Final = Struct(">qqqqqiiiqq")
_DIGEST: Final = Struct(">qiQ")
_SEAL: Final = Struct(">qi1s")
_DIGEST_STAT: Final = Struct(">qqqqqiiiq")
_DIGEST_MASK: Final = (1 << 64) - 1
_LOCAL: Final = "/zookeeper/"
MAGIC: Final = b"ZKSN"
VERSION: Final = 2
_FILE_HEAD_BYTES: Final = _FILE_HEAD.pack(MAGIC, VERSION, -1)
_NODES_END: Final = text("/")
CHUNK_BYTES: Final = 1 << 16

OPEN_KEY: Final = -1
"""The number that stands for the open ACL in every file. The list of ACLs does not contain it."""

PersistedStat: TypeAlias = tuple[int, ...]
"""czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral owner, pzxid, as they are stored.

Two fields differ from the stats that clients receive: the stored cversion counts only the creations of children, and
the stored owner also marks containers and TTL nodes.
"""


class FileNode(NamedTuple):
    """A node of a file: a plain tuple with names, because there may be millions. The root's path is empty."""

    path: str
    data: bytes | None
    acl_key: int
    stat: PersistedStat


@frozen
class FileDigest:
    zxid: int
    version: int
    value: int


# -- reading -------------------------------------------------------------------------------------------


class SnapshotReader:
    """Read one file. The constructor reads `sessions` and `acls`; one iteration yields the nodes in the file's order.

    The end of the iteration verifies all checksums, and sets `digest` and `last_zxid` if the file has them. Nodes from
    an iteration that stopped early are not verified. Damage raises `DamagedError`.
    """

    def __init__(self, chunks: Iterable[bytes], record_bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._source = Source(chunks, record_bytes_max)
        head = self._exactly(_FILE_HEAD.size)
        magic, version, _ = _FILE_HEAD.unpack(head)
        if magic != MAGIC:
            raise DamagedError("not a snapshot of ZooKeeper: it does not begin with ZKSN")
        if version != VERSION:
            raise DamagedError(f"a snapshot of version {version}; only version {VERSION} can be read")
        self.sessions: dict[int, int] = dict(self._read_sessions())
        """Timeout in milliseconds by session."""
        self.acls: dict[int, Acl] = dict(self._read_acls())
        self.digest: FileDigest | None = None
        self.last_zxid: int | None = None

    def __iter__(self) -> Iterator[FileNode]:
        yield from self.nodes()
        self._check_seal()
        self._read_rest()

    def nodes(self) -> Iterator[FileNode]:
        """Yield the nodes up to the end mark, and verify nothing."""
        source = self._source
        data, at = source.data, source.position
        while True:
            try:
                node, stop = decode_node(data, at)
            except STRUCT_ERRORS:
                source.position = at
                if not source.more():
                    raise self._cut_short() from None
                data, at = source.data, source.position
                continue
            at = stop
            if node is None:
                break
            yield node
        source.position = at

    def _read_sessions(self) -> Iterator[tuple[int, int]]:
        for _ in range(self._count()):
            session, timeout_ms = _SESSION.unpack(self._exactly(_SESSION.size))
            yield session, timeout_ms

    def _read_acls(self) -> Iterator[tuple[int, Acl]]:
        source = self._source
        for _ in range(self._count()):
            (key,) = LONG.unpack(self._exactly(8))
            while True:
                try:
                    acl, source.position = decode_acl(source.data, source.position)
                    break
                except STRUCT_ERRORS:
                    if not source.more():
                        raise self._cut_short() from None
            yield key, acl or ()

    def _read_rest(self) -> None:
        """Read the optional sections: a digest and its checksum have 33 bytes, a zxid and its checksum 21."""
        source = self._source
        with_digest, with_zxid = _DIGEST.size + _SEAL.size, LONG.size + _SEAL.size
        left = len(source.take(with_digest + with_zxid + 1))
        source.position -= left
        if left not in (0, with_digest, with_zxid, with_digest + with_zxid):
            more = " or more" if left > with_digest + with_zxid else ""
            raise DamagedError(
                f"at byte {source.offset}: {left}{more} bytes after the first checksum fit no known format"
            )
        if left >= with_digest:
            self.digest = FileDigest(*_DIGEST.unpack(self._exactly(_DIGEST.size)))
            self._check_seal()
        if left in (with_zxid, with_digest + with_zxid):
            (self.last_zxid,) = LONG.unpack(self._exactly(8))
            self._check_seal()

    def _check_seal(self) -> None:
        source = self._source
        offset, found = source.offset, source.checksum()
        checksum, length, slash = _SEAL.unpack(self._exactly(_SEAL.size))
        if checksum != found:
            raise DamagedError(f"at byte {offset}: the snapshot does not match its checksum")
        if (length, slash) != (1, b"/"):
            raise DamagedError(f"at byte {offset}: the end mark is missing")

    def _count(self) -> int:
        """Read a count. A wrong count costs no memory, because the items are read one by one."""
        (count,) = INT.unpack(self._exactly(4))
        if count < 0:
            raise DamagedError(f"at byte {self._source.offset - 4}: {count} is not a valid number of entries")
        return int(count)

    def _exactly(self, count: int) -> bytes:
        taken = self._source.take(count)
        if len(taken) < count:
            raise self._cut_short()
        return taken

    def _cut_short(self) -> DamagedError:
        return DamagedError(
            f"the snapshot ends in the middle, or its lengths are wrong; complete up to byte {self._source.offset}"
        )


def decode_node(data: bytes, at: int) -> tuple[FileNode | None, int]:
    """Return a node, or None at the end mark, and the offset of its end.

    All fields are present if the last one, the stat, can be read.
    """
    (length,) = INT.unpack_from(data, at)
    start = at + 4
    stop = start + length
    if length == 1 and data[start] == 47:
        return None, stop
    (data_length,) = INT.unpack_from(data, stop)
    if length < 0 or data_length < -1:
        raise DamagedError(f"a node has the lengths {length} and {data_length}, which are not valid")
    data_start = stop + 4
    data_stop = data_start + data_length if data_length > 0 else data_start
    key, *stat = _KEY_AND_STAT.unpack_from(data, data_stop)
    try:
        path = data[start:stop].decode()
    except UnicodeDecodeError:
        path = lenient(data[start:stop])
    value = None if data_length < 0 else data[data_start:data_stop]
    return FileNode(path, value, key, tuple(stat)), data_stop + _KEY_AND_STAT.size


# -- writing -------------------------------------------------------------------------------------------


def snapshot_chunks(
    sessions: Mapping[int, int],
    acls: Mapping[int, Acl],
    nodes: Iterable[FileNode],
    digest: FileDigest | None = None,
    last_zxid: int | None = None,
) -> Iterator[bytes]:
    """Yield a snapshot file in parts. `nodes` must begin with the root, and have each node before its children."""
    adler, held = 1, bytearray(_FILE_HEAD_BYTES)
    for part in state_parts(sessions, acls, nodes):
        held += part
        if len(held) >= CHUNK_BYTES:
            chunk = bytes(held)
            adler = zlib.adler32(chunk, adler)
            held.clear()
            yield chunk
    tail = bytes(held)

    def sealed(body: bytes) -> bytes:
        nonlocal adler
        adler = zlib.adler32(body, adler)
        seal = _SEAL.pack(adler, 1, b"/")
        adler = zlib.adler32(seal, adler)
        return body + seal

    tail = sealed(tail)
    if digest is not None:
        tail += sealed(_DIGEST.pack(digest.zxid, digest.version, digest.value))
    if last_zxid is not None:
        tail += sealed(LONG.pack(last_zxid))
    yield tail


def state_parts(sessions: Mapping[int, int], acls: Mapping[int, Acl], nodes: Iterable[FileNode]) -> Iterator[bytes]:
    """Yield sessions, ACLs and nodes in small parts, up to the end mark: the state in a file and on a link."""
    yield INT.pack(len(sessions))
    for session, timeout_ms in sessions.items():
        yield _SESSION.pack(session, timeout_ms)
    yield INT.pack(len(acls))
    for key, acl in acls.items():
        yield LONG.pack(key) + encode_acl(acl)
    expected_root = True
    for path, data, acl_key, stat in nodes:
        assert (path == "") == expected_root, "the root is the first node and the only one without a path"
        expected_root = False
        raw = path.encode()
        yield INT.pack(len(raw)) + raw + (INT.pack(-1) if data is None else INT.pack(len(data)) + data)
        yield _KEY_AND_STAT.pack(acl_key, *stat)
    assert not expected_root, "the first node must be the root"
    yield _NODES_END


# -- digest --------------------------------------------------------------------------------------------


def node_digest(path: str, data: bytes | None, stat: PersistedStat) -> int:
    """Return ZooKeeper's digest of one node. The digest of nodes below /zookeeper is 0: servers may differ in them."""
    if path.startswith(_LOCAL):
        return 0
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = stat
    digest = zlib.crc32(path.encode() if path != "/" else b"")
    if data is not None:
        digest = zlib.crc32(data, digest)
    packed = _DIGEST_STAT.pack(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
    return zlib.crc32(packed, digest)


def tree_digest(nodes: Iterable[FileNode]) -> int:
    """Return the sum of all nodes' digests modulo 2**64. ZooKeeper writes it after transactions and into snapshots."""
    return sum(node_digest(node.path, node.data, node.stat) for node in nodes) & _DIGEST_MASK
