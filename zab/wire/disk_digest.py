"""The digest of a tree: the sum of the digests of its nodes, whatever order they are added in.

ZooKeeper writes it behind transactions and into snapshots. An import that arrives at the same number has
read the same tree.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from struct import Struct
from typing import Final

from zab.wire.disk_snapshot import FileNode, PersistedStat

_STAT: Final = Struct(">qqqqqiiiq")
_MASK: Final = (1 << 64) - 1
_LOCAL: Final = "/zookeeper/"
"""Below it every server keeps something of its own: statistics, the membership."""


def node_digest(path: str, data: bytes | None, stat: PersistedStat) -> int:
    if path.startswith(_LOCAL):
        return 0
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = stat
    digest = zlib.crc32(path.encode() if path != "/" else b"")
    if data is not None:
        digest = zlib.crc32(data, digest)
    packed = _STAT.pack(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
    return zlib.crc32(packed, digest)


def tree_digest(nodes: Iterable[FileNode]) -> int:
    return sum(node_digest(node.path, node.data, node.stat) for node in nodes) & _MASK
