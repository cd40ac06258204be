"""Putting a snapshot from the leader in the place of the whole history, in one instant.

The instant is a rename: once `install.<zxid>` is durable, everything older is void, whatever else is still
lying around; before it, nothing happened. All that follows is clearing up, and recovery does it again from
the start when a crash interrupts it. So the tail of the old log can never stand behind the new snapshot.
"""

from __future__ import annotations

from attrs import evolve

from zab.core.zxid import NOTHING, Zxid
from zab.storage import segment, snapshot_files
from zab.storage.disk import Disk
from zab.storage.epochs import ASIDE, EpochsFile, HistoryStatus
from zab.storage.snapshot_files import INSTALL, SNAPSHOT, SnapshotFile


def install(disk: Disk, epochs: EpochsFile, incoming: SnapshotFile, digest: int) -> None:
    if epochs.record.status is not HistoryStatus.WHOLE:
        epochs.save(epochs.record)  # from here on the record remembers the damage, so the evidence may be moved
        for zxid in snapshot_files.listed(disk.list(), INSTALL):
            name = f"{INSTALL}{zxid:x}"
            disk.rename(name, ASIDE + name)
    incoming.place(digest, f"{INSTALL}{incoming.zxid:x}")
    finish(disk, epochs, incoming.zxid)


def finish(disk: Disk, epochs: EpochsFile, zxid: Zxid) -> None:
    """What stands in `install.<zxid>` is sound and is the history now. May be interrupted and done again."""
    status = epochs.record.status
    for name in disk.list():
        if name.startswith((segment.PREFIX, SNAPSHOT)) and not name.endswith(".tmp"):
            if status is HistoryStatus.DAMAGED:
                disk.rename(name, ASIDE + name)
            else:
                disk.delete(name)
    disk.sync_dir()
    if status is not HistoryStatus.WHOLE:
        status = HistoryStatus.HEALING
    epochs.committed = zxid
    epochs.save(evolve(epochs.record, status=status, reaches=zxid, segment=NOTHING))
    disk.rename(f"{INSTALL}{zxid:x}", snapshot_files.name_of(zxid))
    disk.sync_dir()
