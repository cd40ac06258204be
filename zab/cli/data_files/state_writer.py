"""Write a state into a new directory, in the format of zab or of ZooKeeper."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from zab.cli.data_files.state_reader import StoreState
from zab.core.errors import ConfigError
from zab.core.zxid import Zxid
from zab.host.durable_file import replace_file
from zab.storage.disk import disk_error
from zab.storage.offline import found_history
from zab.storage.real_disk import LOCK, RealDisk
from zab.wire.disk_files import (
    ACCEPTED_EPOCH,
    CURRENT_EPOCH,
    MYID,
    VERSION_DIRECTORY,
    encode_number,
    snapshot_name,
)
from zab.wire.disk_store import departure


def check_new(target: Path) -> None:
    """Raise `ConfigError` if the target is a file, or a directory with more than `myid`, a lock and `lost+found`.

    Call this first: a long import must not fail at its end.
    """
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{target} is a file: name a directory that is empty or does not exist yet")
    inside = sorted({each.name for each in target.iterdir()} - {MYID, LOCK, "lost+found"}) if target.exists() else []
    if inside:
        raise ConfigError(f"{target} contains {inside[0]}, and nothing is overwritten: name an empty directory")


_MODE: Final = 0o640
"""The mode that a server gives its own files: only the owner and the group may read the store."""


def found_in(target: Path, state: StoreState) -> None:
    """Make a data directory of zab. It belongs to the first server that is started on it."""
    check_new(target)
    disk = RealDisk(target)
    try:
        found_history(disk, Zxid(state.store.zxid), state.store.snapshot(), state.epoch)
    finally:
        disk.close()


def export_to(target: Path, state: StoreState, sid: int | None) -> Path:
    """Make a data directory of ZooKeeper's, with one snapshot of the whole state. Return the path of the snapshot."""
    check_new(target)
    files = target / VERSION_DIRECTORY
    files.mkdir(parents=True, exist_ok=True)
    for name in (ACCEPTED_EPOCH, CURRENT_EPOCH):
        write_file(files / name, [encode_number(state.epoch)])
    if sid is not None and not (target / MYID).exists():
        write_file(target / MYID, [encode_number(sid) + b"\n"])
    # The snapshot comes last: without it the directory is not valid, so an incomplete copy is never used.
    snapshot = files / snapshot_name(state.store.zxid)
    write_file(snapshot, departure(state.store))
    return snapshot


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file durably. The file gets its name only when it is complete.

    Raise `StorageError` if the temporary file exists already, or a system call fails.
    """
    temporary = path.with_name(path.name + ".tmp")
    if temporary.exists():
        raise disk_error("write", str(temporary), errno.EEXIST)
    try:
        replace_file(path, chunks, mode=_MODE)
    except OSError as error:
        raise disk_error("write", str(error.filename or path), error.errno) from error
