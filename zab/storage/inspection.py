"""Read a directory without changing it: for dumps, checks and exports.

Recovery repairs the directory; an inspection must not. It writes nothing and takes no lock, so a server may run in the
directory. The log then seems to end at the record that was its last when the file was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, frozen

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.zxid import EPOCH_MAX, NOTHING, Epoch, Zxid
from zab.storage import epochs, snapshot_files
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import EpochsFile, EpochsRecord, HistoryStatus
from zab.storage.history_scan import HistoryScan
from zab.storage.real_disk import LOCK, RealFile, named
from zab.storage.segment import PREFIX, SegmentScan, decode_segment, guess_segment, name_of, scan
from zab.storage.snapshot_files import INSTALL, SNAPSHOT


class ReadOnlyDisk:
    """One directory, read only. Every method that would change it raises."""

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
        raise LocalProtocolError(f"{self.path} is opened read-only: {name} cannot be created")

    def rename(self, old: str, new: str) -> None:
        raise LocalProtocolError(f"{self.path} is opened read-only: {old} cannot be renamed to {new}")

    def delete(self, name: str) -> None:
        raise LocalProtocolError(f"{self.path} is opened read-only: {name} cannot be deleted")

    def sync_dir(self, folder: str = "") -> None:
        """Do nothing: nothing was written."""

    def close(self) -> None:
        """Do nothing: no lock is held."""


def is_ours(disk: Disk) -> bool:
    return any(name == epochs.NAME or name.startswith((PREFIX, SNAPSHOT, INSTALL)) for name in disk.list())


# -- file by file --------------------------------------------------------------------------------------


@frozen
class LogFile:
    """One file of the log by itself.

    `trouble` describes the damage, or a torn record at the end; it is None if the file is sound. `scan` is None if the
    file is unreadable, or if its header is damaged and cannot be guessed.
    """

    name: str
    size: int
    scan: SegmentScan | None
    trouble: str | None


def log_files(disk: Disk) -> Iterator[LogFile]:
    """Iterate over the log files, oldest first; each is read when it is requested."""
    for first in sorted(snapshot_files.listed(disk.list(), PREFIX)):
        name, size = name_of(first), 0
        segment, trouble = None, []
        try:
            data = read_all(disk, name)
            size = len(data)
            segment = decode_segment(name, data)
        except DamagedError as error:
            trouble.append(str(error).removeprefix(f"{name}: "))
            segment = guess_segment(first, data) if size else None
        records = None if segment is None else scan(data, segment)
        if records is not None and records.trouble is not None:
            trouble.append(f"offset {records.end}: {records.trouble}")
        yield LogFile(name, size, records, "; ".join(trouble) or None)


# -- the whole history ---------------------------------------------------------------------------------


@frozen
class FoundHistory:
    """The history in a directory. If `damage` is empty, it is the complete one that recovery would find, up to `last`.

    Else recovery would find none, and this is what can be read: the history may be incomplete.

    record   the epochs record; None if it is missing or unreadable, or the history is not whole or is being replaced
    newest   the newest sound snapshot, or None; `batches` is everything after it
    torn     the log ends in a record that a crash left half written; it does not count
    lost     the line of `damage` about a missing or unreadable epochs record; else None. Without the record, missing
             log files cannot be noticed, and the server's promises are unknown; the rest may be sound
    """

    record: EpochsRecord | None
    newest: Zxid | None
    batches: tuple[Batch, ...]
    last: Zxid
    torn: bool
    notes: tuple[str, ...]
    damage: tuple[str, ...]
    lost: str | None = None


def history(disk: Disk, *, salvage: bool = False) -> FoundHistory:
    """Read the history. With `salvage`, include files with a damaged header if they continue the history."""
    try:
        names = disk.list()
        pieces = tuple(name for name in names if name.startswith((PREFIX, SNAPSHOT, INSTALL)))
        if pieces and epochs.NAME not in names:
            raise DamagedError(epochs.missing(pieces))
        file, found = EpochsFile.read(disk)
    except DamagedError as error:
        lost = f"{error}; this server's promises are lost"
        return evolve(_salvaged(disk, [lost], salvage), lost=lost)
    record, notes = file.record, list(found)
    if snapshot_files.listed(disk.list(), INSTALL):
        return _salvaged(
            disk,
            ["the installation of a snapshot from the leader was interrupted: start the server to finish it"],
            salvage,
        )
    if record.status is not HistoryStatus.WHOLE:
        status = record.status.name.lower().replace("_", " ")
        return _salvaged(disk, [f"the server must not vote with this history: its status is {status}"], salvage)
    if record.forgotten:
        notes.append("this server may have lost promises: its votes do not count until its leader readmits it")
    walk = HistoryScan(disk, record, notes, salvage=salvage)
    walk.read()
    return _found_history(record, walk)


def _salvaged(disk: Disk, damage: list[str], salvage: bool) -> FoundHistory:
    """Read the longest sound history, without the epochs record. The result's `damage` begins with the given lines."""
    firsts = snapshot_files.listed(disk.list(), PREFIX)
    walk = HistoryScan(disk, EpochsRecord(Epoch(EPOCH_MAX), segment=max(firsts, default=NOTHING)), [], salvage=salvage)
    walk.read()
    walk.damage[:0] = damage
    return _found_history(None, walk)


def _found_history(record: EpochsRecord | None, walk: HistoryScan) -> FoundHistory:
    batches = [batch for batch in walk.batches if batch.last > walk.snapshot]
    if batches:
        batches[0] = batches[0].after(walk.snapshot)
    return FoundHistory(
        record,
        walk.newest,
        tuple(batches),
        max(walk.last, walk.snapshot),
        walk.torn,
        tuple(walk.notes),
        tuple(walk.damage),
    )
