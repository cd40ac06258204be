"""A log directory in memory, that crashes, tears, rots, fills up and fails on request: the same every time, and quick.

Each file is kept twice: as the running broker sees it, and as it is durable, with what happened in between.
A crash lets as much of that list happen as `choose` decides. Folders are durable at once.
"""

from __future__ import annotations

import errno as errors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from attrs import define, field

from replica.storage.files import Failing, MissingFile, Stat

Choose: TypeAlias = Callable[[int], int]
"""`choose(n)` picks from range(n): chance, or a script. `random.Random(seed).randrange` is one."""

SECTOR: Final = 512
UNBOUNDED: Final = 1 << 60


@define(eq=False)
class Inode:
    data: bytearray = field(factory=bytearray)
    durable: bytearray = field(factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(factory=list)
    """Writes at an offset; None: the file was cut there."""

    def do(self, target: bytearray, offset: int, new: bytes | None) -> None:
        if new is None:
            del target[offset:]
            target.extend(bytes(offset - len(target)))
            return
        if offset > len(target):
            target.extend(bytes(offset - len(target)))
        target[offset : offset + len(new)] = new

    def change(self, offset: int, new: bytes | None) -> None:
        self.do(self.data, offset, new)
        self.pending.append((offset, new))

    def confirm(self) -> None:
        for offset, new in self.pending:
            self.do(self.durable, offset, new)
        self.pending.clear()

    def crash(self, choose: Choose | None) -> None:
        """Nothing of what is pending, all of it, its beginning, or any of its sectors."""
        mode = 0 if choose is None else choose(4)
        kept = len(self.pending) if mode == 1 else 0
        if mode == 2 and choose is not None:
            kept = choose(len(self.pending) + 1)
        for index, (offset, new) in enumerate(self.pending):
            if index < kept:
                self.do(self.durable, offset, new)
            elif mode == 3 and choose is not None:
                for at, piece in _sectors(offset, new):
                    if choose(2):
                        self.do(self.durable, at, piece)
            elif mode == 2 and choose is not None and index == kept and new:
                self.do(self.durable, offset, new[: choose(len(new) + 1)])
        self.pending.clear()
        self.data = bytearray(self.durable)


def _sectors(offset: int, new: bytes | None) -> list[tuple[int, bytes | None]]:
    if new is None:
        return [(offset, None)]
    pieces: list[tuple[int, bytes | None]] = []
    at = offset
    while at < offset + len(new):
        stop = min(offset + len(new), (at // SECTOR + 1) * SECTOR)
        pieces.append((at, new[at - offset : stop - offset]))
        at = stop
    return pieces


class MemoryFile:
    def __init__(self, files: MemoryFiles, inode: Inode, path: str) -> None:
        self._files = files
        self._inode = inode
        self._path = path

    def size(self) -> int:
        return len(self._inode.data)

    def read(self, offset: int, length: int) -> bytes:
        self._files.enter("read", self._path)
        return bytes(self._inode.data[offset : offset + length])

    def write(self, offset: int, data: bytes | bytearray) -> None:
        self._files.enter("write", self._path)
        grows = offset + len(data) - len(self._inode.data)
        if self._files.capacity is not None and grows > self._files.capacity - self._files.used() and grows > 0:
            raise self._files.failure("write", self._path, errors.ENOSPC)
        self._inode.change(offset, bytes(data))

    def truncate(self, size: int) -> None:
        self._files.enter("truncate", self._path)
        self._inode.change(size, None)

    def sync(self) -> None:
        self._files.enter("sync", self._path)
        self._inode.confirm()

    def close(self) -> None:
        pass


class MemoryFiles(Failing):
    """capacity     bytes that fit, None for no limit
    calls       how many calls there were, by kind; `fail` makes one of them fail
    """

    def __init__(self) -> None:
        super().__init__("memory")
        self.capacity: int | None = None
        self.calls: dict[str, int] = {}
        self._failures: dict[tuple[str, int], int] = {}
        self._folders: set[str] = set()
        self._names: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._pending: list[tuple[str, dict[str, Inode | None]]] = []

    # -- the protocol ------------------------------------------------------------------------------

    def room(self) -> int:
        return UNBOUNDED if self.capacity is None else self.capacity - self.used()

    def folders(self) -> list[str]:
        return sorted(self._folders)

    def list(self, folder: str) -> dict[str, Stat]:
        self.enter("list", folder)
        found = {}
        for path in sorted(self._names):
            where, _, name = path.rpartition("/")
            if where == folder:
                found[name] = Stat(len(self._names[path].data), 0)
        return found

    def open(self, path: str) -> MemoryFile:
        self.enter("open", path)
        if path not in self._names:
            raise MissingFile(f"there is no {path}")
        return MemoryFile(self, self._names[path], path)

    def create(self, path: str) -> MemoryFile:
        self.enter("create", path)
        self._rename({path: Inode()})
        return MemoryFile(self, self._names[path], path)

    def rename(self, old: str, new: str) -> None:
        self.enter("rename", old)
        if old not in self._names:
            raise self.failure("rename", old, errors.ENOENT)
        self._rename({old: None, new: self._names[old]})

    def delete(self, path: str) -> None:
        self.enter("delete", path)
        if path in self._names:
            self._rename({path: None})

    def make_folder(self, folder: str) -> None:
        self.enter("make", folder)
        self._folders.add(folder)

    def rename_folder(self, old: str, new: str) -> None:
        self.enter("rename", old)
        self._folders.remove(old)
        self._folders.add(new)
        for names in (self._names, self._durable):
            for path in [each for each in names if each.startswith(f"{old}/")]:
                names[new + path[len(old) :]] = names.pop(path)
        self._pending = [each for each in self._pending if each[0] != old]

    def delete_folder(self, folder: str) -> None:
        self.enter("delete", folder)
        self._folders.discard(folder)
        for names in (self._names, self._durable):
            for path in [each for each in names if each.startswith(f"{folder}/")]:
                del names[path]
        self._pending = [each for each in self._pending if each[0] != folder]

    def sync_folder(self, folder: str) -> None:
        self.enter("sync_folder", folder)
        for where, changes in self._pending:
            if where == folder:
                _apply(self._durable, changes)
        self._pending = [each for each in self._pending if each[0] != folder]

    def close(self) -> None:
        pass

    # -- what is done to it ------------------------------------------------------------------------

    def fail(self, kind: str, nth: int = 0, number: int = errors.EIO) -> None:
        """The nth call of this kind from now on fails; 0 is the next one."""
        self._failures[kind, self.calls.get(kind, 0) + nth] = number

    def crash(self, choose: Choose | None = None) -> None:
        """Loss of power: of what no sync has confirmed as much is left as `choose` says, or nothing."""
        for _, changes in self._pending:
            if choose is not None and choose(2):
                _apply(self._durable, changes)
        self._pending.clear()
        self._names = dict(self._durable)
        done: set[int] = set()
        for path in sorted(self._names):
            inode = self._names[path]
            if id(inode) not in done:
                done.add(id(inode))
                inode.crash(choose)
        self._failed = None
        self._failures.clear()

    def kill(self) -> None:
        """The process died and the system did not: everything is as it was written."""
        self._failed = None
        self._failures.clear()

    def get(self, path: str) -> bytes:
        return bytes(self._names[path].data)

    def durable(self, path: str) -> bytes:
        """What a loss of power surely leaves of it."""
        inode = self._durable.get(path)
        return b"" if inode is None else bytes(inode.durable)

    def put(self, path: str, data: bytes) -> None:
        """A file appears, durable, as if it had always been there."""
        self._names[path] = self._durable[path] = Inode(bytearray(data), bytearray(data))

    def flip(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Bits rot at rest."""
        inode = self._names[path]
        inode.data[offset] ^= mask
        if offset < len(inode.durable):
            inode.durable[offset] ^= mask

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    def clone(self) -> MemoryFiles:
        """As after `kill`, and apart from this one."""
        other = MemoryFiles()
        other._folders = set(self._folders)
        for path, inode in self._names.items():
            other.put(path, bytes(inode.data))
        return other

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Who looks on meanwhile reads what is there, and neither meets failures nor uses them up."""
        kept = self._failed, self._failures, dict(self.calls)
        self._failed, self._failures = None, {}
        try:
            yield
        finally:
            self._failed, self._failures, self.calls = kept

    def enter(self, kind: str, path: str) -> None:
        self.check()
        count = self.calls.get(kind, 0)
        self.calls[kind] = count + 1
        if self._failures and (number := self._failures.pop((kind, count), None)) is not None:
            raise self.failure(kind, path, number)

    def _rename(self, changes: dict[str, Inode | None]) -> None:
        _apply(self._names, changes)
        self._pending.append((next(iter(changes)).rpartition("/")[0], changes))


def _apply(names: dict[str, Inode], changes: dict[str, Inode | None]) -> None:
    for path, inode in changes.items():
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode
