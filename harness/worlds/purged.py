"""What a server has left on its disk when it has removed what is old: as the disk shows it, past the storage."""

from __future__ import annotations

from harness.checkers import Judge
from zab.core.errors import DamagedError
from zab.core.zxid import ServerId
from zab.storage.memory import MemoryDisk
from zab.storage.segment import PREFIX, decode_segment, name_of
from zab.storage.snapshots import SNAPSHOT, listed


def tell_purged(judge: Judge, sid: ServerId, disk: MemoryDisk) -> None:
    names = disk.names()
    snapshots, logs = listed(names, SNAPSHOT), listed(names, PREFIX)
    if not snapshots or not logs:
        return
    name = name_of(logs[-1])
    try:
        first = decode_segment(name, disk.get(name))
    except DamagedError:  # a fault has been at it; a restart will tell
        return
    judge.purged(sid, snapshots[-1], first.previous)
