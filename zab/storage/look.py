"""Looking at a directory without changing it: for dumps, checks and exports.

Recovery settles what it finds; whoever only wants to know must not. Here nothing is written, not even a lock,
so a server may run meanwhile: then the end of its log is wherever it was when it was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.zxid import EPOCH_MAX, NOTHING, Epoch, Zxid
from zab.storage import epochs, snapshots
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import EpochsFile, Record, Standing
from zab.storage.real import LOCK, RealFile, named
from zab.storage.segment import PREFIX, Scan, decode_segment, name_of, scan
from zab.storage.snapshots import INSTALL, SNAPSHOT
from zab.storage.walk import Walk


class ReadOnlyDisk:
    """One directory, as it is. Who tries to change it has a mistake in his program."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def list(self) -> tuple[str, ...]:
        with named("list", str(self.path)), os.scandir(self.path) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.name != LOCK and entry.is_file()))

    def open(self, name: str) -> RealFile:
        where = f"{self.path}/{name}"
        with named("open", where):
            return RealFile(os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC), name, where)

    def create(self, name: str) -> RealFile:
        raise LocalProtocolError(f"{self.path} is only looked at: {name} is not created")

    def rename(self, old: str, new: str) -> None:
        raise LocalProtocolError(f"{self.path} is only looked at: {old} is not renamed to {new}")

    def delete(self, name: str) -> None:
        raise LocalProtocolError(f"{self.path} is only looked at: {name} is not deleted")

    def sync_dir(self) -> None:
        """There is nothing to be made durable."""

    def close(self) -> None:
        """Nothing is held."""


def is_ours(disk: Disk) -> bool:
    return any(name == epochs.NAME or name.startswith((PREFIX, SNAPSHOT, INSTALL)) for name in disk.list())


# -- file by file --------------------------------------------------------------------------------------


@frozen
class LogFile:
    """One file of the log, for itself. `trouble`: it ends in something that is no record, or it cannot be read."""

    name: str
    size: int
    scan: Scan | None
    trouble: str | None


def log_files(disk: Disk) -> Iterator[LogFile]:
    """In order, each read when it is asked for."""
    for first in sorted(snapshots.listed(disk.list(), PREFIX)):
        name, size = name_of(first), 0
        try:
            data = read_all(disk, name)
            size = len(data)
            found = scan(data, decode_segment(name, data))
        except DamagedError as error:
            yield LogFile(name, size, None, str(error))
        else:
            yield LogFile(name, size, found, None if found.trouble is None else f"offset {found.end}: {found.trouble}")


# -- the whole history ---------------------------------------------------------------------------------


@frozen
class History:
    """What a directory holds, as recovery would find it. `damage` empty: it is whole, and ends at `last`.

    newest   the newest sound snapshot, None without one; `batches` is all behind it
    torn     the log ends in something that a crash left half written; it does not count
    """

    record: Record | None
    newest: Zxid | None
    batches: tuple[Batch, ...]
    last: Zxid
    torn: bool
    notes: tuple[str, ...]
    damage: tuple[str, ...]


def history(disk: Disk) -> History:
    try:
        file, found = EpochsFile.read(disk)
    except DamagedError as error:
        return _whatever_is_left(disk, [str(error)])
    record, notes = file.record, list(found)
    if snapshots.listed(disk.list(), INSTALL):
        return _whatever_is_left(
            disk, ["a snapshot from the leader is half installed: start the server, it will finish"]
        )
    if record.standing is not Standing.WHOLE:
        return _whatever_is_left(disk, [f"this history may not be voted with: it is {record.standing.name.lower()}"])
    walk = Walk(disk, record, notes)
    walk.read()
    return _told(record, walk)


def _whatever_is_left(disk: Disk, damage: list[str]) -> History:
    """As much as hangs together, whatever the record would say of it."""
    firsts = snapshots.listed(disk.list(), PREFIX)
    walk = Walk(disk, Record(Epoch(EPOCH_MAX), segment=max(firsts, default=NOTHING)), [])
    walk.read()
    walk.damage[:0] = damage
    return _told(None, walk)


def _told(record: Record | None, walk: Walk) -> History:
    batches = [batch for batch in walk.batches if batch.last > walk.snapshot]
    if batches:
        batches[0] = batches[0].after(walk.snapshot)
    return History(
        record,
        walk.newest,
        tuple(batches),
        max(walk.last, walk.snapshot),
        walk.torn,
        tuple(walk.notes),
        tuple(walk.damage),
    )
