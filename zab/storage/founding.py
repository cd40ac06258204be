"""Start a history that does not begin empty: in an empty directory, at one zxid.

An import does this, and a restart from a backup. All servers that are founded on the same state at the same zxid agree,
because the digest of the history before it is the same for all: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from zab.core.errors import ConfigError
from zab.core.zxid import Epoch, Zxid, epoch_of, show
from zab.storage.disk import Disk
from zab.storage.epochs import EpochsFile, Record
from zab.storage.inspection import is_ours
from zab.storage.snapshots import SnapshotWriter

NO_DIGEST = 0


def found(disk: Disk, zxid: Zxid, chunks: Iterable[bytes], epoch: Epoch = Epoch(0)) -> None:
    """Write the snapshot first and the epochs record last: a directory without the record is recognized as incomplete.

    epoch  the newest epoch that any server promised, if it is known to be later than the zxid's
    """
    epoch = Epoch(max(epoch, epoch_of(zxid)))
    if is_ours(disk):
        raise ConfigError(f"there is a history already: one that begins at {show(zxid)} needs a directory of its own")
    writer = SnapshotWriter(disk, zxid, NO_DIGEST)
    try:
        for chunk in chunks:
            writer.write(chunk)
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    EpochsFile(disk, Record()).save(Record(accepted=epoch, current=epoch, reaches=zxid))
