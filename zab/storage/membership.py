"""The membership that a directory remembers: looked at by whoever wants to know, replaced by an operator who must.

It is a fact of the history and changes with it. Only when all servers are stopped, and those that the history knows
cannot come back where they were, is there a reason to put another one in its place.
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
from zab.storage.look import ReadOnlyDisk
from zab.storage.storage import Storage, StorageSettings


def remembered(path: str | os.PathLike[str]) -> Ensemble | None:
    """What is in force by this directory; a server may run in it. None: nothing is, or it cannot be read.

    A membership without a version is what a server was started with before any epoch began: it binds nobody.
    """
    try:
        file, _ = EpochsFile.read(ReadOnlyDisk(path))
    except StorageError:  # what is wrong with it, the start will say
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
    """Behind everything that is logged here, so that no change in the log is taken for one that is still to come; and
    at the beginning of an epoch, so that servers which were stopped together come to the same one.

    One that no epoch has begun with yet is used again: whoever mends a file and tries again must not get ahead of
    the others, nor of the epoch that is to come.
    """
    unused = not counter_of(before) and epoch_of(before) > accepted
    epoch = max(epoch_of(Zxid(max(last, 0))) + 1, epoch_of(before) + (not unused))
    return make(epoch, 0)
