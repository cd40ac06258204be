"""What has been prepared and not applied yet: the future that the next request is judged against.

For each path the newest node that will stand there, or None where there will be none. What the tree says
counts only for paths without a record.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from zab.store.node import Node

Record: TypeAlias = tuple[int, Node | None]
"""(zxid, node)"""

Undo: TypeAlias = list[tuple[str, Record | None]]


class Outstanding:
    __slots__ = ("order", "records")

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.order: deque[tuple[int, str]] = deque()
        """(zxid, path), as they were put."""

    def __len__(self) -> int:
        return len(self.order)

    def put(self, zxid: int, path: str, node: Node | None) -> None:
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
        """To where it stood before a multi began: each path that it touched, and so their parents, too."""
        while len(self.order) > position:
            self.order.pop()
        for path, record in reversed(undo):
            if record is None:
                del self.records[path]
            else:
                self.records[path] = record
