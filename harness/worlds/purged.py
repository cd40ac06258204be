"""What a server has left on its disk when it has removed what is old: as the disk shows it, past the storage."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from harness.checkers import Judge
from zab.core.errors import DamagedError
from zab.core.zxid import ServerId, Zxid
from zab.storage.memory_disk import MemoryDisk
from zab.storage.segment import PREFIX, decode_segment, name_of
from zab.storage.snapshot_files import SNAPSHOT, listed
from zab.storage.snapshot_files import name_of as snapshot_name

SNAPSHOTS_KEPT: Final = 2
"""Of each server."""


def tell_purged(judge: Judge, sid: ServerId, disk: MemoryDisk, spare: Zxid | None) -> None:
    """`spare` is a snapshot beside those that are kept: it was stored because a learner was sent it."""
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
    try:
        counted = [zxid for zxid in snapshots if zxid != spare]
        if counted:
            judge.stays(sid, counted[0], needless(disk, counted, logs))
    except DamagedError:
        return


def needless(disk: MemoryDisk, snapshots: list[Zxid], logs: list[Zxid]) -> list[str]:
    """Older snapshots than are kept, and log files of which all is in the oldest that is. Listed newest first."""
    if len(snapshots) < SNAPSHOTS_KEPT:
        return []
    oldest = snapshots[SNAPSHOTS_KEPT - 1]
    names = [snapshot_name(zxid) for zxid in snapshots[SNAPSHOTS_KEPT:]]
    for newer, older in pairwise(logs):
        name = name_of(newer)
        if decode_segment(name, disk.get(name)).previous <= oldest:
            names.append(name_of(older))
    return names
