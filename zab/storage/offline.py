"""Change the directory of a stopped server: begin or give up a history, or replace the stored membership.

The membership normally changes only by transactions of the history. Replace it here only if all servers are stopped
and no majority of the old members can start again at the old addresses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, StorageError
from zab.core.ready import SaveEpochs
from zab.core.zxid import NOTHING, Epoch, Zxid, counter_of, epoch_of, make, show
from zab.storage.disk import Disk
from zab.storage.epochs import EpochsFile, EpochsRecord
from zab.storage.inspection import ReadOnlyDisk, is_ours
from zab.storage.snapshot_files import SnapshotWriter
from zab.storage.storage import Storage, StorageSettings

NO_DIGEST: Final = 0
"""The digest before the first transaction of a founded history: the same on all servers, so that their histories agree.
"""


def found_history(disk: Disk, zxid: Zxid, chunks: Iterable[bytes], epoch: Epoch = Epoch(0)) -> None:
    """Begin a history at `zxid` with the state in `chunks`. Raise ConfigError if the directory has a history.

    Imports and restores use this. `epoch` is the newest epoch that any server promised, if it is known to be later than
    that of `zxid`. The snapshot is written first and the epochs record last: recovery recognizes a directory without
    the record as incomplete.
    """
    epoch = Epoch(max(epoch, epoch_of(zxid)))
    if is_ours(disk):
        raise ConfigError(f"there is a history already: begin the history at {show(zxid)} in an empty directory")
    writer = SnapshotWriter(disk, zxid, NO_DIGEST)
    try:
        for chunk in chunks:
            writer.write(chunk)
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    EpochsFile(disk, EpochsRecord()).save(EpochsRecord(accepted=epoch, current=epoch, reaches=zxid))


@frozen
class GivenUp:
    """The end of the history, and a lower bound of the zxid up to which it was committed."""

    last: Zxid
    committed: Zxid


def give_up_history(disk: Disk) -> GivenUp | None:
    """Mark the history as damaged: the server does not vote until a snapshot has taken its place.

    Promises and membership stay. The files stay, too; the installation of the snapshot moves them aside. Return the
    extent of the history. If the server does not vote anyway, or has no membership, return None and do not mark the
    history.
    """
    storage, recovered = Storage.open(disk, StorageSettings(autocreate=False))
    try:
        ensemble = recovered.ensemble
        if not recovered.voting or ensemble is None:
            return None
        given_up = GivenUp(max(storage.last, NOTHING), max(recovered.snapshot, recovered.committed))
        storage.perform([
            SaveEpochs(1, recovered.accepted, recovered.current, ensemble, whole=False, forgotten=recovered.forgotten)
        ])  # fmt: skip
        return given_up
    finally:
        storage.close()


def stored_membership(path: str | os.PathLike[str]) -> Ensemble | None:
    """Return the membership in force in this directory; None if there is none or it is unreadable.

    A server may run in the directory. A membership without a version came from a configuration file, before any epoch,
    and does not count as stored.
    """
    try:
        file, _ = EpochsFile.read(ReadOnlyDisk(path))
    except StorageError:  # the next start reports the damage
        return None
    ensemble = file.record.ensemble
    return ensemble if ensemble is not None and ensemble.version else None


def replace_membership(disk: Disk, ensemble: Ensemble, settings: StorageSettings) -> Ensemble:
    """Replace the membership in the directory, and return the new one with its version. The history stays."""
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
    """Return a version after everything in this log, so that no change in the log counts as pending.

    The version is the beginning of an epoch, so that servers whose logs end in the same epoch choose the same one. If
    the epoch of the current version has not begun yet, that version is reused: otherwise an operator who repeats the
    change at one server would give it a later version than the others have.
    """
    unused = not counter_of(before) and epoch_of(before) > accepted
    epoch = max(epoch_of(Zxid(max(last, 0))) + 1, epoch_of(before) + (not unused))
    return make(epoch, 0)
