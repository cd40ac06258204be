"""What one client waits for, oldest first: replies leave in the order of the requests."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias


class Slot:
    """A place in the line of replies that no transaction will fill."""

    __slots__ = ("done", "error", "last", "value", "zxid")

    def __init__(
        self,
        error: int = 0,
        value: object = None,
        *,
        done: bool = False,
        last: bool = False,
        zxid: int | None = None,
    ) -> None:
        self.error = error
        self.zxid = zxid
        self.value = value
        self.done = done
        self.last = last


Waits: TypeAlias = bytes | Slot | None
"""The body of a read; a slot; or None for a write that is under way."""
Place: TypeAlias = tuple[int, int, Waits]
"""(op, xid, what it waits for)"""


class Line(deque[Place]):
    """It does not fill a write's place: whoever hears of its transaction does, and takes it from the front."""

    __slots__ = ()

    def due(self) -> Place | None:
        """What stands in front, and with it out of the line, if it can be answered now."""
        if not self:
            return None
        waits = self[0][2]
        if waits is None or (type(waits) is Slot and not waits.done):
            return None
        return self.popleft()
