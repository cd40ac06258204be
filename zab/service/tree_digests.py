"""Compare the tree with the leader's, in an ensemble that speaks ZooKeeper's protocol.

There each proposal has the digest of the leader's tree after the transaction.

Histories are not compared by digests there, so this is the only way to notice that two servers differ. It changes
nothing: a difference is counted and shown to operators, as one that a checkpoint of our own shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol, runtime_checkable

from zab.core.zxid import Zxid

EXPECTED_MAX: Final = 20_000
"""The largest number of digests that wait for their transactions. The oldest ones are dropped."""
FUZZY_MAX: Final = 1_000
"""The number of transactions after a snapshot within which a difference proves nothing.

The leader writes its state while it changes, so a snapshot has parts of transactions that follow it. A difference
counts as soon as the trees were equal once.
"""
VERSION: Final = 2
"""The version of ZooKeeper's digest that our trees have."""


@runtime_checkable
class DigestedTree(Protocol):
    def tree_digest(self) -> int:
        """Return the digest of the tree after the last transaction."""
        ...

    def tree_differs(self, zxid: int, leaders: int, ours: int) -> None:
        """Record that the leader's tree had another digest after this transaction."""


@runtime_checkable
class PredictedTree(Protocol):
    """A tree whose digest a leader can send with each transaction."""

    def predicted_digest(self, zxid: int) -> int:
        """Return the digest that the tree will have after the transaction that was prepared last, with this zxid."""
        ...


class TreeDigestCheck:
    def __init__(self, tree: DigestedTree) -> None:
        self.compared = 0
        """The number of digests that were compared since the start."""
        self._tree = tree
        self._expected: deque[tuple[Zxid, int]] = deque(maxlen=EXPECTED_MAX)
        """(zxid, the leader's digest after it), ascending"""
        self._fuzzy = 0
        """The number of transactions for which a difference still proves nothing."""

    def restored(self) -> None:
        """Handle a snapshot that has replaced the tree."""
        self._fuzzy = FUZZY_MAX

    def expect(self, digests: Iterable[tuple[Zxid, int, int]]) -> None:
        """Take (zxid, version, digest) of transactions that are not applied yet."""
        expected = self._expected
        for zxid, version, digest in digests:
            while expected and expected[-1][0] >= zxid:
                expected.pop()  # sent again, perhaps by another leader
            if version == VERSION:
                expected.append((zxid, digest))

    def applied(self, zxid: Zxid) -> None:
        """Compare the digests after this transaction, if the leader's is known."""
        expected = self._expected
        while expected and expected[0][0] < zxid:
            expected.popleft()
        if not expected or expected[0][0] != zxid:
            return
        _, leaders = expected.popleft()
        ours = self._tree.tree_digest()
        self.compared += 1
        if ours == leaders:
            self._fuzzy = 0
        elif self._fuzzy:
            self._fuzzy -= 1
        else:
            self._tree.tree_differs(zxid, leaders, ours)
