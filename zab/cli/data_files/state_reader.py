"""Read a data directory or a snapshot file, of zab or of ZooKeeper, into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

from zab.cli.data_files.log_lines import transactions_of
from zab.core.errors import ConfigError, DamagedError, StorageError
from zab.core.zxid import NOTHING, Epoch, Zxid, counter_of, epoch_of, show
from zab.storage import snapshot_files
from zab.storage.disk import Disk, disk_error
from zab.storage.inspection import ReadOnlyDisk, history, is_ours
from zab.storage.snapshot_files import MisnamedError
from zab.storage.split_disk import SplitDisk
from zab.store import transactions
from zab.store.store import Store
from zab.store.znode import CZXID, MZXID, PZXID
from zab.wire.disk_compression import plain
from zab.wire.disk_files import (
    ACCEPTED_EPOCH,
    CURRENT_EPOCH,
    VERSION_DIRECTORY,
    Compression,
    decode_number,
    logs_behind,
    parse_name,
    snapshot_name,
    snapshots_newest_first,
)
from zab.wire.disk_log import LogReader
from zab.wire.disk_snapshot import MAGIC, SnapshotReader
from zab.wire.disk_store import arrival, replay
from zab.wire.disk_txn import FileTxn

READ_BYTES: Final = 1 << 20
UNSEEN_MAX: Final = 1 << 24
"""The largest plausible number of transactions after a snapshot's newest known change that change no zxid of a node.

If a file's name has a date in place of the zxid, the difference is far larger.
"""
EPOCHS_AHEAD_MAX: Final = 1_000
NAMED_MAX: Final = 5
"""The largest number of ignored files that an error message names."""
Progress: TypeAlias = Callable[[int], object]
"""Receives the number of bytes of each read."""


class NoSnapshotError(DamagedError):
    """A directory of ZooKeeper has no snapshot that can be used."""


def no_progress(count: int) -> None:
    """Do nothing: no progress is shown."""


@frozen
class StoreState:
    """A store, its source, the newest epoch known there, and notes for the operator."""

    store: Store
    source: str
    epoch: Epoch
    notes: tuple[str, ...] = ()


def read_state(path: Path, log_dir: Path | None = None, progress: Progress = no_progress) -> StoreState:
    """Read the state in a data directory or a snapshot file. `log_dir` is the dataLogDir of a directory.

    Raise `ConfigError` if the path is neither a data directory nor a snapshot of zab or of ZooKeeper, if a directory
    without `version-2` contains a snapshot of ZooKeeper, or if the zxid of a snapshot file is unknown. Raise
    `NoSnapshotError` if a directory of ZooKeeper has no usable snapshot, `MisnamedError` if the name of a snapshot file
    has the wrong zxid, and `DamagedError`, the base class of both, for other damage. Raise another `StorageError` if a
    file cannot be read.
    """
    if path.is_dir():
        theirs = their_files(path)
        if theirs is not None:
            return read_theirs(theirs, their_files(log_dir) or log_dir if log_dir else theirs, progress)
        for stray in snapshots_newest_first(_names(path)):
            if _is_their_snapshot(path / stray.name, stray.compression):
                raise ConfigError(
                    f"{path}: contains {stray.name}, a snapshot in ZooKeeper's format, but no {VERSION_DIRECTORY}/: "
                    f"name that file instead, or move it to {VERSION_DIRECTORY}/"
                )
        disk = our_disk(path, log_dir)
        if is_ours(disk):
            return read_ours(disk, str(path))
        raise ConfigError(
            f"{path}: not a data directory of zab, nor one of ZooKeeper, which would contain {VERSION_DIRECTORY}/"
        )
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or directory")
    file = parse_name(path.name)
    compression = Compression.NONE if file is None else file.compression
    head = next(pieces(path, no_progress), b"")
    if head.startswith(b"zab.snp\n"):
        return _our_file(path)
    if head.startswith(MAGIC) or compression is not Compression.NONE:
        store, content, whole = _their_snapshot(path, None if file is None else file.zxid, compression, progress)
        notes = []
        if content > store.zxid:
            notes.append(
                f"{path}: the name says zxid {store.zxid:#x}, but the content ends at {content:#x}, which is used"
            )
            store.zxid = content
        if not whole:
            notes.append(
                f"{path}: written while the state changed, so it contains only some of the changes of that time; the "
                "log with the others is not read"
            )
        return StoreState(store, str(path), epoch_of(Zxid(store.zxid)), tuple(notes))
    raise ConfigError(f"{path}: neither a snapshot of zab nor one of ZooKeeper")


def pieces(path: Path, progress: Progress) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                progress(len(piece))
                yield piece
    except OSError as error:
        raise disk_error("read", str(path), error.errno) from error


def our_disk(path: Path, log_dir: Path | None) -> Disk:
    """Open a data directory of zab, read-only. `log_dir`: the dataLogDir, if the log has a directory of its own."""
    disk = ReadOnlyDisk(path)
    return disk if log_dir is None else SplitDisk(disk, ReadOnlyDisk(log_dir))


# -- files of zab ------------------------------------------------------------------------------------------


def read_ours(disk: Disk, where: str, *, salvage: bool = False) -> StoreState:
    """Read a data directory of zab. Raise `DamagedError` if it is damaged, with two exceptions.

    If only the epochs record is missing or unreadable, the sound history is used, and the notes say what is unknown.
    With `salvage`, the history before the damage is used, and the notes name the place and the reason; `DamagedError`
    is then raised only if nothing can be read.
    """
    found = history(disk, salvage=salvage)
    if not salvage and (fatal := [line for line in found.damage if line != found.lost]):
        raise DamagedError(f"{where}: " + "; ".join(fatal))
    if found.damage and found.newest is None and found.last == NOTHING:
        raise DamagedError(f"{where}: nothing can be read: " + "; ".join(found.damage))
    store = Store()
    if found.newest is not None:
        store.restore(snapshot_files.read_chunks(disk, snapshot_files.name_of(found.newest)))
    last, foreign = found.last, None
    try:
        for zxid, txn in transactions_of(found.batches):
            if salvage:
                transactions.decode(txn)  # raises before any part of a bad transaction is applied
            store.apply(zxid, txn)
    except DamagedError as error:
        if not salvage or not store.zxid:
            raise DamagedError(f"{where}: {error}") from error
        last = Zxid(store.zxid)
        foreign = f"transaction {show(zxid)}: {error}; it and all later transactions are left out"
    # The last transaction may be a change of membership, which the store does not apply; clients have seen its zxid.
    store.zxid = max(store.zxid, last)
    epoch = epoch_of(found.last) if found.record is None else found.record.accepted
    notes = found.notes if foreign is None else (*found.notes, foreign)
    return StoreState(store, where, epoch, (*notes, *found.damage))


def _our_file(path: Path) -> StoreState:
    """Read a snapshot file of zab. Raise `MisnamedError` if its name has another zxid after the first dot."""
    disk = ReadOnlyDisk(path.parent)
    store = Store()
    store.restore(snapshot_files.read_chunks(disk, path.name))
    return StoreState(store, str(path), epoch_of(Zxid(store.zxid)))


# -- files of Apache ZooKeeper -----------------------------------------------------------------------------


def their_files(path: Path) -> Path | None:
    """Return ZooKeeper's `version-2`: the one in `path`, or `path` itself if it has that name and a log or snapshot.

    Return None if there is neither.
    """
    if (path / VERSION_DIRECTORY).is_dir():
        return path / VERSION_DIRECTORY
    names = _names(path) if path.is_dir() else []
    return path if path.name == VERSION_DIRECTORY and any(parse_name(name) for name in names) else None


def read_theirs(files: Path, log_files: Path, progress: Progress) -> StoreState:
    """Read the newest sound snapshot and replay the log after it, as ZooKeeper recovers."""
    names = _names(files)
    logs = _names(log_files)
    notes: list[str] = []
    unusable: list[str] = []
    store, content = None, 0

    def log_reaches(zxid: int) -> bool:
        behind = [file.name for file in logs_behind(logs, zxid)]
        return any(txn.zxid >= zxid for txn in _their_log(log_files, behind, no_progress, []))

    for file in snapshots_newest_first(names):
        try:
            path = files / file.name
            store, content, _ = _their_snapshot(path, file.zxid, file.compression, progress, log_reaches)
            break
        except DamagedError as error:
            unusable.append(str(error))
    if store is None:
        found = f"none that can be used: {'; '.join(unusable)}" if unusable else "none"
        raise NoSnapshotError(f"{files}: recovery needs a snapshot, and there is {found}{_ignored(names)}")
    notes += [f"{each}; an older snapshot is used" for each in unusable]
    missing = logs_behind(logs, store.zxid)
    outcome = replay(store, _their_log(log_files, [file.name for file in missing], progress, notes))
    if not outcome.digest_agrees:
        raise DamagedError(
            f"{files}: the transaction {outcome.digest_zxid:#x} records another digest than the tree has: "
            "the files are not all of one history, or one of them is missing"
        )
    if content > store.zxid:
        other = "the log ends at" if missing else "no log follows it, and its name says"
        notes.append(
            f"{files}: the snapshot contains changes up to {content:#x}, which is used; {other} {store.zxid:#x}"
        )
        store.zxid = content
    return StoreState(store, str(files.parent), _their_epoch(files, store.zxid), tuple(notes))


def _ignored(names: list[str]) -> str:
    """Return the end of a message: the files like `snapshot*` that were ignored because of the form of their names."""
    ignored = sorted(name for name in names if name.startswith("snapshot") and parse_name(name) is None)
    if not ignored:
        return ""
    more = f" and {len(ignored) - NAMED_MAX} more" if len(ignored) > NAMED_MAX else ""
    return f"; ignored, because the name is not snapshot.<zxid in hexadecimal>: {', '.join(ignored[:NAMED_MAX])}{more}"


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError as error:
        raise disk_error("list", str(folder), error.errno) from error


def _is_their_snapshot(path: Path, compression: Compression) -> bool:
    return compression is not Compression.NONE or next(pieces(path, no_progress), b"").startswith(MAGIC)


def _their_snapshot(
    path: Path,
    zxid: int | None,
    compression: Compression,
    progress: Progress,
    log_reaches: Callable[[int], bool] = lambda zxid: False,
) -> tuple[Store, int, bool]:
    """Return the store, the zxid at which its content ends, and whether its digest is the one in the file.

    A file without a digest counts as equal. `zxid` is the one in the file's name, or None. ZooKeeper names a snapshot
    when it begins to write it, so the file may contain later changes. If the zxid in the name is later than the
    content, raise `MisnamedError`: the log between the two would not be replayed. Old versions of ZooKeeper write no
    last zxid, so only a lower bound of the content's end is known. Then a name is refused only if `_may_be_named` is
    false and no log reaches the zxid in the name.
    """
    reader = SnapshotReader(plain(pieces(path, progress), compression))
    store = Store()
    try:
        store.restore(arrival(reader, zxid or 0))
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}") from error
    content = _newest_change(reader, store) if reader.last_zxid is None else reader.last_zxid
    if zxid is None:
        if reader.last_zxid is None:
            raise ConfigError(f"{path}: neither the name nor the content tells its zxid: rename it to snapshot.<zxid>")
        store.zxid = content
    elif zxid > content and not (
        reader.last_zxid is None and (_may_be_named(zxid, content, reader) or log_reaches(zxid))
    ):
        raise MisnamedError(
            f"{path}: the name says zxid {zxid:#x}, but the content ends at {content:#x}: "
            f"rename it to {snapshot_name(content, compression)}"
        )
    return store, content, reader.digest is None or reader.digest.value == store.digest.value


def _newest_change(reader: SnapshotReader, store: Store) -> int:
    """Return a lower bound for a snapshot's last zxid: the largest of the digest's zxid and the nodes' zxids."""
    newest = 0 if reader.digest is None else reader.digest.zxid
    return max(newest, *(max(node[CZXID], node[MZXID], node[PZXID]) for node in store.tree.nodes.values()))


def _may_be_named(zxid: int, content: int, reader: SnapshotReader) -> bool:
    """Return whether a snapshot whose newest known change is `content` may have been named `zxid`.

    If the file has a digest, the digest's zxid is that of the last transaction. The name may then be later only
    if it is the first zxid of a later epoch (counter 0), which a leader counts as processed. Without a digest,
    transactions that change no zxid of a node may follow the newest known change: those of sessions and ACLs, and
    failed requests.
    """
    epochs = epoch_of(Zxid(zxid)) - epoch_of(Zxid(content))
    ahead = counter_of(Zxid(zxid)) if epochs else zxid - content
    dated = reader.digest is not None and reader.digest.zxid > 0
    return epochs <= EPOCHS_AHEAD_MAX and ahead <= (0 if dated else UNSEEN_MAX)


def _their_log(folder: Path, names: list[str], progress: Progress, notes: list[str]) -> Iterator[FileTxn]:
    for name in names:
        reader = LogReader(pieces(folder / name, progress))
        try:
            yield from reader
        except DamagedError as error:
            raise DamagedError(f"{folder / name}: {error}") from error
        if reader.torn:
            notes.append(f"{folder / name}: ends in an incomplete record after offset {reader.end}, which is ignored")


def _their_epoch(files: Path, zxid: int) -> Epoch:
    epoch = epoch_of(Zxid(zxid))
    for name in (ACCEPTED_EPOCH, CURRENT_EPOCH):
        try:
            epoch = Epoch(max(epoch, decode_number((files / name).read_bytes())))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"{files / name}: cannot be read: {error.strerror}") from error
    return epoch
