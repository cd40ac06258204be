"""Bound the rows of one reply, because no client is served while the reply is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Rows:
    """Counts the rows of one reply up to a limit. `cut` is True if there were more."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self.cut = False

    def take(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield rows until the reply has reached its limit. Set `cut` if a row is left."""
        for row in rows:
            if not self._left:
                self.cut = True
                return
            self._left -= 1
            yield row

    @property
    def values(self) -> dict[str, object]:
        """Return the key and value that mark a truncated reply in JSON; an empty dict if the reply is complete."""
        return {"truncated": self._most} if self.cut else {}

    @property
    def line(self) -> str:
        """Return the line that marks a truncated reply in text; "" if the reply is complete."""
        return f"... cut after {self._most} rows (maxListedRows)\n" if self.cut else ""
