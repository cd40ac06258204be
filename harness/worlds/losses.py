"""What a crash leaves of what a server has written."""

from __future__ import annotations

from zab.storage.inode import Choose
from zab.storage.memory import MemoryDisk


def lose(disk: MemoryDisk, loss: str, choose: Choose) -> None:
    """By a word of `harness.script.names.LOSSES`."""
    match loss:
        case "keep":
            disk.kill()
        case "lose":
            disk.crash()
        case _:
            disk.crash(choose)
