"""The committed history, read from the data directories of servers, and the differences of servers from it.

A log file names the zxid before its first record, and the records follow each other. So the history can be followed
back from its end through all files, including copies of those that a server has deleted. Records that were logged and
never committed are not on that chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from harness.changes import changes_of_batch
from harness.history import Change
from zab.cli.data_files.state_reader import no_progress, read_ours, read_theirs
from zab.core.batch import Batch, pack
from zab.core.errors import DamagedError, WireError
from zab.core.zxid import NOTHING, Zxid, counter_of, show
from zab.storage.inspection import ReadOnlyDisk, history, log_files
from zab.storage.segment import decode_segment
from zab.store.store import Store
from zab.wire.apache.proposals import payload_of
from zab.wire.disk_files import VERSION_DIRECTORY, logs_behind, snapshots_newest_first
from zab.wire.disk_log import LogReader
from zab.wire.relay_messages import TAG_BYTES

_SHOWN: Final = 5


@frozen
class Entry:
    payload: bytes
    config: bool


@define
class DirectoryContents:
    """The records in one data directory. `before` maps the zxid of each to the one before it."""

    entries: dict[Zxid, Entry] = field(factory=dict)
    before: dict[Zxid, Zxid] = field(factory=dict)
    last: Zxid = NOTHING
    store: Store | None = None
    damage: tuple[str, ...] = ()
    replaced: Zxid = NOTHING
    """Records up to this one may never have been committed: a snapshot from a leader has replaced them."""


@frozen
class CommittedHistory:
    """The committed history, as far back as it can be followed. `whole`: it reaches back to the first record."""

    entries: tuple[tuple[Zxid, Entry], ...]
    whole: bool

    def changes(self) -> Iterator[Change]:
        for zxid, entry in self.entries:
            yield from changes_of_batch(pack(zxid, [entry.payload], entry.config))

    @property
    def zxids(self) -> frozenset[int]:
        return frozenset(zxid for zxid, _ in self.entries)


_BEFORE_THE_FIRST_WRITE: Final = frozenset({"identity", "lock", "myid"})


def read_directory(path: Path) -> DirectoryContents:
    """Read the data directory of a server that has ended. It is empty if the server ended before it wrote anything."""
    if (path / VERSION_DIRECTORY).is_dir():
        return _read_zookeeper(path / VERSION_DIRECTORY)
    if {file.name for file in path.iterdir() if file.suffix != ".tmp"} <= _BEFORE_THE_FIRST_WRITE:
        return DirectoryContents()
    found = _logged(path)
    disk = ReadOnlyDisk(path)
    looked = history(disk)
    found.last, found.damage = looked.last, looked.damage
    if not looked.damage:
        try:
            found.store = read_ours(disk, str(path)).store
        except DamagedError as error:
            found.damage = (str(error),)
    return found


def _read_zookeeper(files: Path) -> DirectoryContents:
    """Read the files of Apache ZooKeeper, which keeps the records that a snapshot from its leader has replaced."""
    found = DirectoryContents()
    names = [file.name for file in files.iterdir()]
    try:
        found.store = read_theirs(files, files, no_progress).store
        snapshots = [Zxid(file.zxid) for file in snapshots_newest_first(names)]
        found.replaced = max(snapshots, default=NOTHING)
        last = NOTHING
        for file in logs_behind(names, 0):
            for txn in LogReader([(files / file.name).read_bytes()]):
                zxid = Zxid(txn.zxid)
                found.entries[zxid] = Entry(payload_of(txn), config=False)
                last = max(last, *(each for each in snapshots if each < zxid))
                found.before[zxid] = Zxid(zxid - 1) if counter_of(zxid) > 1 else last
                last = zxid
        found.last = max(last, Zxid(found.store.zxid))
    except (DamagedError, WireError) as error:
        found.damage = (str(error),)
    return found


def _logged(path: Path) -> DirectoryContents:
    """Read the undamaged records of each log file."""
    found = DirectoryContents()
    disk = ReadOnlyDisk(path)
    for file in log_files(disk):
        if file.scan is None:
            continue
        try:
            previous = decode_segment(file.name, (path / file.name).read_bytes()).previous
        except DamagedError:
            continue
        for batch in file.scan.batches:
            _add(found, batch, previous)
            previous = batch.last
    return found


def _add(found: DirectoryContents, batch: Batch, previous: Zxid) -> None:
    for zxid, payload in enumerate(batch.payloads(), start=batch.first):
        found.entries[Zxid(zxid)] = Entry(payload, batch.config)
        found.before[Zxid(zxid)] = previous
        previous = Zxid(zxid)


def committed(directories: Iterable[DirectoryContents], kept: Iterable[Path], last: Zxid) -> CommittedHistory:
    """Return the history that ends at `last`. Directories where a snapshot may have replaced records come last."""
    sources = sorted([*directories, *map(_logged, sorted(kept))], key=lambda each: each.replaced)
    chain: list[tuple[Zxid, Entry]] = []
    zxid = last
    while zxid != NOTHING:
        having = [each for each in sources if zxid in each.entries]
        if not having:
            break
        chain.append((zxid, having[0].entries[zxid]))
        before = {each.before[zxid] for each in (having if having[0].replaced else having[:1])}
        if len(before) > 1:
            break  # no directory is known to be without records that were never committed
        zxid = before.pop()
    return CommittedHistory(tuple(reversed(chain)), zxid == NOTHING)


def differences(directories: Mapping[str, DirectoryContents], canon: CommittedHistory) -> Iterator[str]:
    """Yield the damages and the differences of servers: missing, other or uncommitted records, and other trees."""
    decided = dict(canon.entries)
    first = canon.entries[0][0] if canon.entries else NOTHING
    last = canon.entries[-1][0] if canon.entries else NOTHING
    for name, left in directories.items():
        for damage in left.damage[:_SHOWN]:
            yield f"{name}: {damage}"
        if left.damage:
            continue
        if left.last < last:
            yield f"the log of {name} ends at {show(left.last)}, the committed history at {show(last)}"
        for zxid, entry in left.entries.items():
            if max(first, left.replaced + 1) <= zxid <= last and decided.get(zxid) != entry:
                yield f"{name} has a transaction at {show(zxid)} that was not committed"
                break
    trees = {name: left for name, left in directories.items() if left.store is not None}
    yield from _different_trees(trees, canon)


def _different_trees(directories: Mapping[str, DirectoryContents], canon: CommittedHistory) -> Iterator[str]:
    """Yield the servers whose tree differs from that of most others after the last transaction of all."""
    end = max((left.last for left in directories.values()), default=NOTHING)
    whole = {end} if end not in canon.zxids else canon.zxids
    digests = {name: _digest(left, canon) for name, left in directories.items() if left.last in whole}
    usual = max(digests.values(), key=list(digests.values()).count, default=0)
    others = ", ".join(name for name, digest in digests.items() if digest == usual)
    for name, digest in digests.items():
        if digest != usual:
            yield f"{name} has another tree at {show(end)} than {others}"


def _digest(left: DirectoryContents, canon: CommittedHistory) -> int:
    """Return the digest of the tree after all committed transactions, also those that the server has not received."""
    assert left.store is not None
    for zxid, entry in canon.entries:
        if zxid > left.last and not entry.config:
            left.store.apply(zxid, entry.payload[TAG_BYTES:])
    return left.store.digest.value
