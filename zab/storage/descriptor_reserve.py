"""File descriptors held in reserve, for disk operations when the process has no other descriptor left.

An exhausted descriptor limit is not a failure of the disk. But if an operation stops half way for lack of a descriptor,
it is unknown which part of the log is durable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

T = TypeVar("T")

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The errnos of too many open files in this process or in the system: a temporary condition."""


class DescriptorReserve:
    """At most `count` descriptors, spent one by one and filled up again."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[int] = []
        self._lock = Lock()
        self.fill()

    def fill(self) -> bool:
        """Open the missing descriptors. Return whether the reserve is complete."""
        with self._lock:
            while len(self._held) < self._count:
                try:
                    self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return False
            return True

    def run(self, act: Callable[[], T]) -> T:
        """Return `act()`. While it fails for lack of a descriptor, spend one from the reserve and try again.

        Once the reserve is empty, raise the error of `act`. Raise every other error of `act` at once.
        """
        while True:
            try:
                return act()
            except OSError as error:
                if error.errno not in EXHAUSTED or not self._spend():
                    raise

    def close(self) -> None:
        with self._lock:
            self._count = 0
            while self._held:
                os.close(self._held.pop())

    def _spend(self) -> bool:
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            return True
