"""The digest that the leader's tree will have after a transaction that is prepared and not applied yet.

A leader of Apache ZooKeeper sends this digest with each transaction, and every server compares it with that of its own
tree. The sum follows the outstanding changes, one transaction after the other: the summand of a node's former state is
subtracted, that of its new state is added.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from zab.store.digest import BELOW_SYSTEM, MASK, Digest, continued
from zab.store.outstanding_changes import OutstandingChanges
from zab.store.paths import ROOT
from zab.store.tree import Tree

KNOWN_MAX: Final = 4096
"""The number of nodes without outstanding changes whose CRCs are remembered, at most about."""


class PredictedDigest:
    """Follows the transactions of one epoch in their order. It reads the outstanding changes, and keeps none."""

    def __init__(self, tree: Tree, digest: Digest, outstanding: OutstandingChanges) -> None:
        self._nodes = tree.nodes
        self._digest = digest
        """The digest of the applied tree. It is the sum at the beginning of an epoch."""
        self._outstanding = outstanding
        self._epoch = -1
        self._value = 0
        """The sum after the last transaction, not reduced to 64 bits."""
        self._known: dict[str, tuple[int, int]] = {}
        """The CRC of the path and the CRC of the newest node, outstanding or applied; 0 for a deleted node. Every path
        with an outstanding change has an entry, except those below `/zookeeper`, which do not count.
        """

    def after(self, zxid: int) -> int:
        """Return the digest after the transaction `zxid`, which must be the last one that was prepared.

        Call it once for each transaction of an epoch, with no other call in between that prepares one.
        """
        if zxid >> 32 != self._epoch:
            self._epoch, self._value = zxid >> 32, self._digest.value
            self._known.clear()
        records, known, value = self._outstanding.records, self._known, self._value
        for at, path in reversed(self._outstanding.order):
            if at != zxid:
                break
            found = known.get(path)
            if found is None:
                if path.startswith(BELOW_SYSTEM):
                    continue
                crc = 0 if path == ROOT else crc32(path.encode())
                old = self._nodes.get(path)  # no earlier change of it is outstanding
                before = 0 if old is None else continued(crc, old)
            else:
                crc, before = found
            new = records[path][1]
            after = 0 if new is None else continued(crc, new)
            value += after - before
            known[path] = crc, after
        self._value = value
        if len(known) > KNOWN_MAX + 2 * len(records):
            self._known = {path: known[path] for path in records if path in known}
        return value & MASK
