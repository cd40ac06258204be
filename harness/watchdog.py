"""The watchdog ends a run in which one call never returns. The event budget cannot end such a run.

The watchdog measures processor time, so it does not depend on the load of the machine. The limit is far above that of
any healthy run. The machine decides at which instruction it interrupts, but not which runs it interrupts.
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
    """A call did not return in time."""


@contextmanager
def watchdog(seconds: float = SECONDS) -> Iterator[None]:
    """Raise `RunAway` inside the block after this processor time. Outside the main thread there is no limit."""
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
