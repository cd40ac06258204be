"""A log directory in memory, which survives the processes of its broker."""

from __future__ import annotations

from functools import partial

from replica.storage.files import FirstFailure
from zab.storage.memory_disk import MemoryDisk
from zab.storage.power_loss import AnySectors


def memory_directory(where: str = "memory") -> MemoryDisk:
    """Return an empty log directory. `where` is its name in messages."""
    return MemoryDisk(partial(FirstFailure, where), AnySectors, where)
