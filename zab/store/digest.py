"""One checksum of the tree, by which servers notice that their states differ: version 2 of ZooKeeper's digest.

The digest is the sum of the CRCs of all nodes that are not below `/zookeeper`. So a change subtracts one summand and
adds another. The sum is brought up to date in three cases: on demand; when more than `CHANGED_MAX` nodes have changed;
and, if `StoreSettings.checkpoints` is set, at every 4096th zxid. So the CRC of a node that changes often is computed
only once between two updates, and an update is seldom long. The CRCs of recently changed nodes are remembered.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final
from zlib import crc32

from zab.store.paths import ROOT, SYSTEM
from zab.store.tree import Mark, Tree
from zab.store.znode import Znode

VERSION: Final = 2
CHECKPOINT_EVERY: Final = 4096
"""The number of zxids between two checkpoints: a power of two."""
HISTORY_LENGTH: Final = 1024
"""The number of checkpoints that are kept."""
CHANGED_MAX: Final = 1024
"""The number of changed nodes above which the sum is brought up to date at the end of a transaction."""

KNOWN_MAX: Final = 4096
"""The maximum number of nodes whose CRCs are remembered."""

MASK: Final = (1 << 64) - 1
_NUMBERS: Final = Struct(">qqqqqiiiq")
_pack_numbers: Final = _NUMBERS.pack
BELOW_SYSTEM: Final = SYSTEM + "/"


def digest_of(path: str, node: Znode) -> int:
    """Return the summand of one node. It is 0 below `/zookeeper`, as in ZooKeeper."""
    if path.startswith(BELOW_SYSTEM):
        return 0
    return continued(0 if path == ROOT else crc32(path.encode()), node)


def continued(crc: int, node: Znode) -> int:
    """Return the CRC of a node. `crc` is the CRC of its path, 0 for the root."""
    data, _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, _ = node
    if data:
        crc = crc32(data, crc)
    return crc32(_pack_numbers(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner), crc)


class Digest:
    """The digest of one tree, with its values at the last checkpoints."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.changed: Mark = {}
        """The paths that have changed since the last `settle`, with the node at that time (None: there was none)."""
        tree.marks.append(self.changed)
        self._known: dict[str, tuple[int, int]] = {}
        """The CRC of the path and the CRC of the node, for recently changed nodes: at most `KNOWN_MAX` nodes."""
        self._value = 0
        """The sum at the last `settle`."""
        self._data_bytes = 0
        """The number of characters of all paths plus the number of bytes of all data, at the last `settle`."""
        for path, node in tree.nodes.items():
            self._add(path, node)
        self.history: deque[tuple[int, int]] = deque(maxlen=HISTORY_LENGTH)
        """(zxid, digest) of the last checkpoints."""
        self._at: dict[int, int] = {}
        """The digests of the same checkpoints, by zxid."""

    def _add(self, path: str, node: Znode) -> None:
        self._value += digest_of(path, node)
        self._data_bytes += len(path) + len(node[0] or b"")

    def settle(self) -> None:
        """Bring the sum and the data size up to date with all nodes that have changed.

        For each changed node its earlier CRC, remembered or computed from the earlier node, is subtracted, and the new
        one is added. The sum is that of ZooKeeper's DigestCalculator and AdHash, which subtract and add with each
        transaction.
        """
        nodes, changed, known = self._tree.nodes, self.changed, self._known
        if len(known) + len(changed) > KNOWN_MAX:
            known.clear()
        value, size = self._value, self._data_bytes
        for path, old in changed.items():
            new = nodes.get(path)
            if old is not None:
                size -= len(path) + len(old[0] or b"")
            elif new is None:
                continue  # created and deleted in between
            if new is not None:
                size += len(path) + len(new[0] or b"")
            found = known.get(path)
            if found is not None:
                crc, before = found
            elif path.startswith(BELOW_SYSTEM):
                continue
            else:
                crc = 0 if path == ROOT else crc32(path.encode())
                before = 0 if old is None else continued(crc, old)
            if new is None:
                value -= before
                if found is not None:
                    del known[path]
                continue
            # The same as `continued`, inlined to save the call.
            data, _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, _ = new
            numbers = _pack_numbers(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
            after = crc32(numbers, crc32(data, crc) if data else crc)
            value += after - before
            if old is not None and len(known) < KNOWN_MAX:
                known[path] = crc, after
        changed.clear()
        self._value, self._data_bytes = value & MASK, size

    @property
    def value(self) -> int:
        self.settle()
        return self._value & MASK

    @property
    def data_bytes(self) -> int:
        """The characters of all paths plus the bytes of all data: the approximate data size that monitoring reports."""
        self.settle()
        return self._data_bytes

    def checkpoint(self, zxid: int) -> None:
        if len(self.history) == HISTORY_LENGTH:
            del self._at[self.history[0][0]]
        self.history.append((zxid, self.value))
        self._at[zxid] = self._value

    def at(self, zxid: int) -> int | None:
        """Return the digest of the checkpoint at this zxid, or None if there is none or it is no longer kept."""
        return self._at.get(zxid)
