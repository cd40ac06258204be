"""What a crash leaves of what a server has written."""

from __future__ import annotations

from zab.storage.memory_disk import MemoryDisk
from zab.storage.memory_inode import Choose


def lose(disk: MemoryDisk, loss: str, choose: Choose) -> None:
    """By a word of `harness.script.names.LOSSES`."""
    match loss:
        case "keep":
            disk.kill()
        case "lose":
            disk.crash()
        case _:
            disk.crash(choose)
