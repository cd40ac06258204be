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
from zab.cli.data_files.state_reader import read_ours
from zab.core.batch import Batch, pack
from zab.core.errors import DamagedError
from zab.core.zxid import NOTHING, Zxid, show
from zab.storage.inspection import ReadOnlyDisk, history, log_files
from zab.storage.segment import decode_segment

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
    digest: int | None = None
    """The digest of the store in the directory."""
    damage: tuple[str, ...] = ()


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
    if {file.name for file in path.iterdir() if file.suffix != ".tmp"} <= _BEFORE_THE_FIRST_WRITE:
        return DirectoryContents()
    found = _logged(path)
    disk = ReadOnlyDisk(path)
    looked = history(disk)
    found.last, found.damage = looked.last, looked.damage
    if not looked.damage:
        try:
            found.digest = read_ours(disk, str(path)).store.digest.value
        except DamagedError as error:
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
    """Return the history that ends at `last`."""
    sources = [*directories, *(_logged(path) for path in sorted(kept))]
    chain: list[tuple[Zxid, Entry]] = []
    zxid = last
    while zxid != NOTHING:
        source = next((each for each in sources if zxid in each.entries), None)
        if source is None:
            break
        chain.append((zxid, source.entries[zxid]))
        zxid = source.before[zxid]
    return CommittedHistory(tuple(reversed(chain)), zxid == NOTHING)


def differences(directories: Mapping[int, DirectoryContents], canon: CommittedHistory) -> Iterator[str]:
    """Yield the damages and the differences of servers: missing, other or uncommitted records, and other trees."""
    decided = dict(canon.entries)
    first = canon.entries[0][0] if canon.entries else NOTHING
    last = canon.entries[-1][0] if canon.entries else NOTHING
    for sid, left in sorted(directories.items()):
        for damage in left.damage[:_SHOWN]:
            yield f"server {sid}: {damage}"
        if left.damage:
            continue
        if left.last < last:
            yield f"the log of server {sid} ends at {show(left.last)}, the committed history at {show(last)}"
        for zxid, entry in left.entries.items():
            if first <= zxid <= last and decided.get(zxid) != entry:
                yield f"server {sid} has a transaction at {show(zxid)} that was not committed"
                break
    known = {sid: left for sid, left in sorted(directories.items()) if left.digest is not None}
    for (sid, left), (other, right) in zip(list(known.items())[:-1], list(known.items())[1:], strict=True):
        if left.last == right.last and left.digest != right.digest:
            yield f"servers {sid} and {other} have different trees at {show(left.last)}"
