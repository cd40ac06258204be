"""Founding a history that does not begin with nothing: in an empty directory, as of one zxid.

An import does it, and whoever starts anew from a copy. Every server that is founded on the same state at the
same zxid agrees with the others, because the digest of what came before is the same for all: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from zab.core.errors import ConfigError
from zab.core.zxid import Epoch, Zxid, epoch_of, show
from zab.storage.disk import Disk
from zab.storage.epochs import EpochsFile, Record
from zab.storage.look import is_ours
from zab.storage.snapshots import SnapshotWriter

NO_DIGEST = 0


def found(disk: Disk, zxid: Zxid, chunks: Iterable[bytes], epoch: Epoch = Epoch(0)) -> None:
    """The record comes last: a directory with a snapshot and without it is told apart from a whole one.

    epoch  the newest that anybody promised anywhere, where that is known to be later than the zxid's
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
