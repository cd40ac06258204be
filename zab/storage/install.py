"""Replace the whole history by a snapshot from the leader, with one rename.

The rename to `install.<zxid>` decides. Before it is durable, the old history is valid; after it, all older files are
void, even if they still exist. The later steps remove these files or move them aside. If a crash interrupts the steps,
recovery repeats them. So the tail of the old log can never follow the new snapshot.
"""

from __future__ import annotations

from attrs import evolve

from zab.core.zxid import NOTHING, Zxid
from zab.storage import segment, snapshot_files
from zab.storage.disk import Disk
from zab.storage.epochs import ASIDE, EpochsFile, HistoryStatus
from zab.storage.snapshot_files import INSTALL, SNAPSHOT, SnapshotFile


def install(disk: Disk, epochs: EpochsFile, incoming: SnapshotFile, digest: int | None) -> None:
    """Make the complete incoming snapshot the history. On return it is durable."""
    if epochs.record.status is not HistoryStatus.WHOLE:
        # Files may be moved aside only once the record on the disk says that the history is not whole.
        epochs.save(epochs.record)
        for zxid in snapshot_files.listed(disk.list(), INSTALL):
            name = f"{INSTALL}{zxid:x}"
            disk.rename(name, ASIDE + name)
    incoming.place(digest, f"{INSTALL}{incoming.zxid:x}")
    finish(disk, epochs, incoming.zxid)


def finish(disk: Disk, epochs: EpochsFile, zxid: Zxid) -> None:
    """Complete an installation after its first rename: remove older files, save the epochs, rename the snapshot.

    The files of a damaged history are moved aside instead of removed. A crash may interrupt this at any step.
    """
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
