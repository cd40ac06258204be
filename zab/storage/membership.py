"""The membership that a directory remembers: read by tools, replaced by an operator in an emergency.

The membership is part of the history and changes with it. Replace it only if all servers are stopped and the members
that the history names cannot return to their addresses.
"""

from __future__ import annotations

import os

from attrs import evolve

from zab.core.ensemble import Ensemble
from zab.core.errors import StorageError
from zab.core.ready import SaveEpochs
from zab.core.zxid import Epoch, Zxid, counter_of, epoch_of, make
from zab.storage.disk import Disk
from zab.storage.epochs import EpochsFile
from zab.storage.inspection import ReadOnlyDisk
from zab.storage.storage import Storage, StorageSettings


def remembered(path: str | os.PathLike[str]) -> Ensemble | None:
    """Return the membership in force in this directory, in which a server may run; None if there is none or it is
    unreadable.

    A membership without a version is a server's initial one, from before any epoch: it binds no server.
    """
    try:
        file, _ = EpochsFile.read(ReadOnlyDisk(path))
    except StorageError:  # the next start reports the damage
        return None
    ensemble = file.record.ensemble
    return ensemble if ensemble is not None and ensemble.version else None


def replace_membership(disk: Disk, ensemble: Ensemble, settings: StorageSettings) -> Ensemble:
    """Put it in place of the remembered one; promises and history stay as they are. Returns it with its version."""
    storage, recovered = Storage.open(disk, settings)
    try:
        before = recovered.ensemble
        version = next_version(Zxid(0) if before is None else before.version, storage.last, recovered.accepted)
        new = evolve(ensemble, version=version)
        storage.perform([
            SaveEpochs(1, recovered.accepted, recovered.current, new, recovered.voting, recovered.forgotten)
        ])  # fmt: skip
        return new
    finally:
        storage.close()


def next_version(before: Zxid, last: Zxid, accepted: Epoch) -> Zxid:
    """Return a version behind everything in this log, so that no change in the log counts as still to come.

    It lies at the beginning of an epoch, so servers that were stopped together choose the same one. A version that no
    epoch has begun with yet is reused: an operator who corrects a file and tries again must not get ahead of the other
    servers or of the coming epoch.
    """
    unused = not counter_of(before) and epoch_of(before) > accepted
    epoch = max(epoch_of(Zxid(max(last, 0))) + 1, epoch_of(before) + (not unused))
    return make(epoch, 0)
