"""The changes of prepared transactions that are not applied yet: the leader checks the next request against them.

Each changed path has a record: the node that it will have once all these transactions are applied, or None if it will
have no node. The tree is consulted only for paths without a record.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from zab.store.znode import Znode

Record: TypeAlias = tuple[int, Znode | None]
"""(zxid, node)"""

Undo: TypeAlias = list[tuple[str, Record | None]]


class OutstandingChanges:
    """The newest outstanding node of each path, and the order in which the nodes were put.

    Both containers stay the same objects, because `RequestPreparer` and `Store` refer to them.
    """

    __slots__ = ("order", "records")

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        """path -> the newest outstanding (zxid, node)"""
        self.order: deque[tuple[int, str]] = deque()
        """(zxid, path) of each `put` not yet applied or rolled back, in order. Contains all paths of `records`."""

    def __len__(self) -> int:
        return len(self.order)

    def put(self, zxid: int, path: str, node: Znode | None) -> None:
        self.records[path] = (zxid, node)
        self.order.append((zxid, path))

    def clear(self) -> None:
        self.records.clear()
        self.order.clear()

    def applied(self, zxid: int) -> None:
        """Forget the changes up to `zxid`, which are applied."""
        order, records = self.order, self.records
        while order and order[0][0] <= zxid:
            path = order.popleft()[1]
            record = records.get(path)
            if record is not None and record[0] <= zxid:
                del records[path]

    def position(self) -> int:
        """Return the position for a later `roll_back`."""
        return len(self.order)

    def roll_back(self, position: int, undo: Undo) -> None:
        """Give each path that a failed multi changed, including parents, its earlier record, or none if it had none."""
        while len(self.order) > position:
            self.order.pop()
        for path, record in reversed(undo):
            if record is None:
                del self.records[path]
            else:
                self.records[path] = record
