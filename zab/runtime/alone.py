"""What only a process that belongs to a server alone may do: `zab serve` does it, and no library call.

The event loop, the interpreter and its collector belong to the application that embeds a store. There a disk is waited
for in a thread, and the collector is left as it is. A process that does nothing but serve has nobody to ask.
"""

from __future__ import annotations

import gc
from typing import Final

PAUSE_US: Final = 1_000
"""For `Limits.pause_us_max`: on a quicker disk the way to a thread and back costs more than the fsync."""

_THRESHOLDS: Final = (50_000, 20, 100)


def tune_collector() -> None:
    """A server makes few cycles and many nodes: rare rounds, which leave out what was there at the start.

    To be called before there is a tree: to walk a large one would hold up the loop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
