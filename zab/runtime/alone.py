"""What only a process that belongs to a server alone may do: `zab serve` does it, and no library call.

The event loop, the interpreter and its collector belong to the application that embeds a store. There a disk is waited
for in a thread, and the collector is left as it is. A process that does nothing but serve has nobody to ask.
"""

from __future__ import annotations

import gc
import resource
from typing import Final

PAUSE_US: Final = 1_000
"""For `Limits.pause_us_max`: on a quicker disk the way to a thread and back costs more than the fsync."""

OPEN_FILES_ENOUGH: Final = 1 << 20
"""Where the system sets no limit."""

_THRESHOLDS: Final = (50_000, 20, 100)


def tune_collector() -> None:
    """A server makes few cycles and many nodes: rare rounds, which leave out what was there at the start.

    To be called before there is a tree: to walk a large one would hold up the loop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def raise_open_files() -> int:
    """The limit that a shell or a container sets by default is for programs that open a few files: what the system lets
    this process have, it takes. Returns how many it may have open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a lower one that they do not tell
            pass
    return open_files_limit()


def open_files_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return OPEN_FILES_ENOUGH if soft == resource.RLIM_INFINITY else soft
