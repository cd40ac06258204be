"""Descriptors that are held for nothing, so that there is one when a log needs it and the process has no other left.

That somebody else took the last one is no failure of a disk. But an operation on a log that ends in its midst leaves
a log of which nobody knows what is durable; so it is not to end for that.
"""

from __future__ import annotations

import errno
import os
from threading import Lock
from typing import Final

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Too many files are open in this process or system. It passes."""
SPARES_MAX: Final = 32


class Spares:
    def __init__(self, most: int = SPARES_MAX) -> None:
        self._most = most
        self._held: list[int] = []
        self._lock = Lock()
        self.fill()

    def fill(self) -> bool:
        """Whether all are there again."""
        with self._lock:
            while len(self._held) < self._most:
                try:
                    self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return False
            return True

    def spend(self) -> bool:
        """One is free now for whoever comes first. False: none was left."""
        with self._lock:
            if not self._held:
                return False
            os.close(self._held.pop())
            return True

    def close(self) -> None:
        with self._lock:
            self._most = 0
            while self._held:
                os.close(self._held.pop())
