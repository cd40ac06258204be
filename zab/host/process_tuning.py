"""Tune a process that only runs a server. Commands such as `zab serve` do so; the library never does.

In an application that embeds a store, the event loop, the interpreter and its collector belong to the application.
There a thread waits for the disk, and the collector keeps its thresholds. A large store calls `gc.freeze` there, too:
see `ClientPortSettings.nodes_spared_min`.
"""

from __future__ import annotations

import gc
import resource
from typing import Final

PAUSE_US: Final = 1_000
"""The value of `Limits.pause_us_max` for a process that only runs a server.

If an fsync is faster than this, handing it to a thread costs more than the fsync itself.
"""

OPEN_FILES_ENOUGH: Final = 1 << 20
"""The limit of open files that is used if the system sets none."""

_THRESHOLDS: Final = (50_000, 20, 100)


def tune_collector() -> None:
    """Make collections of cyclic garbage rare, and exempt all objects that exist now.

    Servers and brokers make few cycles and keep many nodes and partitions. A full collection visits all of these, frees
    nothing, and holds up the loop. Without this, three brokers in one process with 2,600 partitions, and 36 consumers
    that reconnect each second, spent a seventh of their time in full collections of 0.28 s. Call this before the store
    has a tree.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard limit, or to `OPEN_FILES_ENOUGH` if there is no hard limit.

    Return the limit that is in force then: the old one if it is higher, or if raising it fails. The default limit of
    shells and containers is for programs that open a few files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # some systems have a lower limit that they do not report
            pass
    return open_files_limit()


def open_files_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return OPEN_FILES_ENOUGH if soft == resource.RLIM_INFINITY else soft
