"""Work beside the event loop that does not hold it up.

A thread that computes keeps the interpreter for five milliseconds at a time. The loop asks for it anew after each of
its system calls, and there are dozens in a turn: so a snapshot being written would make each turn last a tenth of a
second. While such a thread works the interpreter changes hands ten times as often; the thread is slower for it.
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
    """In the event loop, around the await of a thread that computes. There may be several at a time."""
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
