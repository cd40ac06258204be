"""What a crash leaves of what a server or a broker has written."""

from __future__ import annotations

from functools import partial

from replica.storage.files import FirstFailure
from zab.storage.memory_disk import MemoryDisk
from zab.storage.power_loss import AnySectors, Choose


def log_disk() -> MemoryDisk:
    """Return an empty log directory of a broker."""
    return MemoryDisk(partial(FirstFailure, "memory"), AnySectors, "memory")


def lose(disk: MemoryDisk, loss: str, choose: Choose) -> None:
    """By a word of `harness.script.names.LOSSES`."""
    match loss:
        case "keep":
            disk.kill()
        case "lose":
            disk.crash()
        case _:
            disk.crash(choose)
