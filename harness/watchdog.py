"""Ends a run in which a core goes round and round within one call: there, counting events does not help.

It measures processor time, so a slow machine does not matter, and it is far longer than any run takes.
Where it strikes depends on the machine; that it strikes does not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SECONDS: Final = 5.0


class RunAway(Exception):
    """A call did not come back."""


@contextmanager
def watchdog(seconds: float = SECONDS) -> Iterator[None]:
    """Raise `RunAway` wherever the block is after so much processor time. Only a main thread can be watched."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def strike(_: int, __: FrameType | None) -> None:
        raise RunAway(f"still busy after {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, strike)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
