"""Give up the history in the directory of a stopped server: at its next start a leader replaces it."""

from __future__ import annotations

from attrs import frozen

from zab.core.ready import SaveEpochs
from zab.core.zxid import NOTHING, Zxid
from zab.storage.disk import Disk
from zab.storage.storage import Storage, StorageSettings


@frozen
class GivenUp:
    """The end of the history, and how far it was known to be committed, at least."""

    last: Zxid
    committed: Zxid


def give_up_history(disk: Disk) -> GivenUp | None:
    """Mark the history, as if it were damaged: the server does not vote until a snapshot has taken its place.

    Promises and membership stay, and so do the files until then. Returns None if it does not count already.
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
