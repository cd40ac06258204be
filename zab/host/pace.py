"""Run computing threads while the event loop runs, with short delays for the loop.

A thread that computes keeps Python's global interpreter lock for five milliseconds at a time. The loop must take the
lock again after each of its system calls, dozens of times in a turn. So each turn would take a tenth of a second while
a snapshot is written. While such a thread works, the switch interval is `INTERVAL_S`, a tenth of Python's default. This
slows the thread down.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERVAL_S: Final = 0.000_5

_working = 0
_usual_s = 0.0


@contextmanager
def beside_the_loop() -> Iterator[None]:
    """Shorten the switch interval in the block. Used in the event loop, around the await of a thread; may nest."""
    global _working, _usual_s
    if not _working:
        _usual_s = sys.getswitchinterval()
        sys.setswitchinterval(min(INTERVAL_S, _usual_s))
    _working += 1
    try:
        yield
    finally:
        _working -= 1
        if not _working:
            sys.setswitchinterval(_usual_s)
