"""Transactions that are prepared but not applied yet: the state that the leader checks the next request against.

Each path maps to the newest node that will stand there, or to None if there will be none. The tree is consulted only
for paths without an entry.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from zab.store.znode import Znode

Record: TypeAlias = tuple[int, Znode | None]
"""(zxid, node)"""

Undo: TypeAlias = list[tuple[str, Record | None]]


class OutstandingChanges:
    __slots__ = ("order", "records")

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.order: deque[tuple[int, str]] = deque()
        """(zxid, path), as they were put."""

    def __len__(self) -> int:
        return len(self.order)

    def put(self, zxid: int, path: str, node: Znode | None) -> None:
        self.records[path] = (zxid, node)
        self.order.append((zxid, path))

    def clear(self) -> None:
        # In place: others hold these very containers.
        self.records.clear()
        self.order.clear()

    def applied(self, zxid: int) -> None:
        order, records = self.order, self.records
        while order and order[0][0] <= zxid:
            path = order.popleft()[1]
            record = records.get(path)
            if record is not None and record[0] <= zxid:
                del records[path]

    def position(self) -> int:
        return len(self.order)

    def roll_back(self, position: int, undo: Undo) -> None:
        """Restore every path that a failed multi touched, including parents, to its entry before the multi."""
        while len(self.order) > position:
            self.order.pop()
        for path, record in reversed(undo):
            if record is None:
                del self.records[path]
            else:
                self.records[path] = record
