"""An in-memory disk for tests, with injected crashes, torn writes, false syncs, a full disk and damage.

It keeps each file once, as the running server reads it, with an undo list of the changes that no `sync` has made
durable (`zab.storage.memory_inode`). Unsynced changes of names are listed, too. A crash rolls the lists
back, then redoes the part that a policy selects with the caller's `choose` (`zab.storage.power_loss`). A write does not
copy the file. Folders are durable at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from zab.storage.disk import DiskErrors, FileStat
from zab.storage.memory_inode import Inode
from zab.storage.power_loss import Choose, OrderedSectors, PowerLoss

Kind: TypeAlias = str
CHANGES: Final = frozenset({"create", "write", "allocate", "truncate", "sync", "rename", "delete", "make", "sync_dir"})
"""The calls that `MemoryDisk.changes` counts. Only these change the disk, so `crash_at` crashes only at these."""


UNBOUNDED: Final = 1 << 60
"""The room on a disk without a limit."""


class Crash(Exception):
    """The server died at this call.

    Every later call raises this error, too, until `MemoryDisk.crash` or `MemoryDisk.kill` restarts the disk.
    """


def _killed(_: Kind, where: str) -> Crash:
    return Crash(where)


NameChange: TypeAlias = dict[str, Inode | None]
"""Names with their new file, or None for a name that is gone."""


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._boot = disk.boots
        self._closed = False

    @property
    def name(self) -> str:
        return self._name

    def size(self) -> int:
        self._usable()
        return len(self._inode.data)

    def read(self, offset: int, length: int) -> bytes:
        self._usable()
        self._disk._enter("read", self._name)
        return bytes(self._inode.data[offset : offset + length])

    def write(self, offset: int, data: bytes | bytearray) -> None:
        self._usable()
        disk = self._disk
        disk._enter("write", self._name)
        if disk.divert:
            offset, disk.divert = max(0, offset + disk.divert), 0
        if disk.capacity is not None and (grows := offset + len(data) - len(self._inode.data)) > 0:
            room = disk.capacity - disk.used()
            if grows > room:  # like a real disk: write the part that fits, then fail
                self._inode.write(offset, bytes(data[: max(0, len(data) - grows + room)]))
                raise disk._error("write", self._name, errno.ENOSPC)
        self._inode.write(offset, bytes(data))
        disk._leave()

    def allocate(self, size: int) -> None:
        self._usable()
        disk = self._disk
        disk._enter("allocate", self._name)
        if disk.capacity is not None and size - len(self._inode.data) > disk.capacity - disk.used():
            raise disk._error("allocate space for", self._name, errno.ENOSPC)
        if size > len(self._inode.data):
            self._inode.resize(size)
        disk._leave()

    def truncate(self, size: int) -> None:
        self._usable()
        self._disk._enter("truncate", self._name)
        self._inode.resize(size)
        self._disk._leave()

    def sync(self) -> None:
        self._usable()
        disk = self._disk
        try:
            disk._enter("sync", self._name)
        except Crash:
            raise
        except Exception:
            self._inode.doom()  # like Linux, which no longer writes these pages: a second sync succeeds
            raise
        if not disk.lying:
            self._inode.confirm()
        disk._leave()

    def close(self) -> None:
        self._closed = True

    def _usable(self) -> None:
        assert not self._closed, f"{self._name} is closed"
        if self._boot != self._disk.boots:
            raise Crash(f"{self._name} was opened before the crash")


class MemoryDisk:
    """A disk in memory with injected crashes and failures. Switches may be set, and counters read, at any time:

    capacity    bytes that fit on the disk, None for no limit
    lying       a sync returns without making anything durable
    divert      the next write goes to a wrong place: this many bytes after its offset
    changes     number of changing calls so far (see CHANGES)
    boots       number of restarts so far, by `crash` or `kill`
    counts      number of calls so far, by kind

    `new_errors` makes the `DiskErrors` of each process that uses the disk; `power_loss` makes the policy of `crash`.
    """

    scarce: Final = False

    def __init__(
        self,
        new_errors: Callable[[], DiskErrors] = DiskErrors,
        power_loss: Callable[[Choose], PowerLoss] = OrderedSectors,
        where: str = "",
    ) -> None:
        self.where = where
        self.errors = new_errors()
        """The `DiskErrors` of the process that uses the disk. `crash` and `kill` make new ones for the next process."""
        self.capacity: int | None = None
        self.lying = False
        self.divert = 0
        self.changes = 0
        self.boots = 0
        self.counts: dict[Kind, int] = {}
        self._new_errors = new_errors
        self._power_loss = power_loss
        self._folders: set[str] = set()
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._pending: list[tuple[str, NameChange]] = []
        """Changes of names that are not durable, oldest first, each with its folder."""
        self._failures: dict[tuple[Kind, int], int] = {}
        """The errno of each injected failure, by kind and number of the call."""
        self._crash_at: int | None = None
        self._crash_after = False
        self._crash_error: Callable[[Kind, str], BaseException] = _killed
        self._dead = False

    # -- the protocol ------------------------------------------------------------------------------

    def list(self) -> tuple[str, ...]:
        self._enter("list", "the directory")
        return tuple(sorted(name for name in self._names if "/" not in name))

    def open(self, name: str) -> MemoryFile:
        self._enter("open", name)
        return MemoryFile(self, name, self._find(name, "open"))

    def create(self, name: str) -> MemoryFile:
        self._enter("create", name)
        inode = Inode()
        self._change({name: inode})
        self._leave()
        return MemoryFile(self, name, inode)

    def rename(self, old: str, new: str) -> None:
        self._enter("rename", old)
        self._change({old: None, new: self._find(old, "rename")})
        self._leave()

    def delete(self, name: str) -> None:
        self._enter("delete", name)
        self._find(name, "delete")
        self._change({name: None})
        self._leave()

    def sync_dir(self, folder: str = "") -> None:
        self._enter("sync_dir", folder or "the directory")
        if not self.lying:
            for where, change in self._pending:
                if where == folder:
                    _apply(self._durable_names, change)
            self._forget_pending(folder)
        self._leave()

    def close(self) -> None:
        pass

    # -- folders -------------------------------------------------------------------------------------

    def room(self) -> int:
        return UNBOUNDED if self.capacity is None else self.capacity - self.used()

    def folders(self) -> tuple[str, ...]:
        return tuple(sorted(self._folders))

    def stats(self, folder: str) -> dict[str, FileStat]:
        self._enter("list", folder or "the directory")
        paths = [path for path in sorted(self._names) if path.rpartition("/")[0] == folder]
        return {path.rpartition("/")[2]: FileStat(len(self._names[path].data), 0) for path in paths}

    def discard(self, name: str) -> None:
        self._enter("delete", name)
        if name in self._names:
            self._change({name: None})
        self._leave()

    def make_folder(self, folder: str) -> None:
        self._enter("make", folder)
        self._folders.add(folder)
        self._leave()

    def rename_folder(self, old: str, new: str) -> None:
        self._enter("rename", old)
        self._folders.remove(old)
        self._folders.add(new)
        for names in (self._names, self._durable_names):
            for path in _inside(old, names):
                names[new + path[len(old) :]] = names.pop(path)
        self._forget_pending(old)
        self._leave()

    def delete_folder(self, folder: str) -> None:
        self._enter("delete", folder)
        self._folders.discard(folder)
        for names in (self._names, self._durable_names):
            for path in _inside(folder, names):
                del names[path]
        self._forget_pending(folder)
        self._leave()

    def _change(self, change: NameChange) -> None:
        _apply(self._names, change)
        self._pending.append((next(iter(change)).rpartition("/")[0], change))

    def _forget_pending(self, folder: str) -> None:
        self._pending = [each for each in self._pending if each[0] != folder]

    # -- faults -------------------------------------------------------------------------------------

    def crash_at(
        self, change: int, *, after: bool = False, error: Callable[[Kind, str], BaseException] | None = None
    ) -> None:
        """Raise an error at the change with this number (the first is 0): before it happens, or right after.

        `error` makes the error from the kind of the call ("" if `after`) and a description; `Crash` by default.
        """
        self._crash_at = change
        self._crash_after = after
        self._crash_error = error or _killed

    def fail(self, kind: Kind, nth: int = 0, number: int = errno.EIO) -> None:
        """Make the nth call of this kind from now on (0 is the next) fail once with this errno."""
        self._failures[kind, self.counts.get(kind, 0) + nth] = number

    def will_fail(self, kind: Kind) -> bool:
        """Return whether an injected failure of this kind is still to come."""
        return any(kind == failing for failing, _ in self._failures)

    def forgive(self) -> None:
        """Cancel the injected failures, and the crash, that have not occurred yet."""
        self._failures.clear()
        if not self._dead:
            self._crash_at = None

    def crash(self, choose: Choose | None = None, *, keep: bool = False) -> None:
        """Simulate a power failure and a restart.

        With `choose`, the policy decides which unsynced changes survive, wholly or in part. Without it all are lost, or
        kept if `keep` is true.
        """
        pending, self._pending = self._pending, []
        loss = None if choose is None else self._power_loss(choose)
        if loss is None and keep:
            survived = dict(self._names)
        else:
            survived = dict(self._durable_names)
            kept = [] if loss is None else loss.names(len(pending))
            for (_, change), keeps in zip(pending, kept, strict=False):
                if keeps:
                    _apply(survived, change)
        self._names = survived
        self._durable_names = dict(survived)
        done: set[int] = set()
        for name in sorted(survived):
            inode = survived[name]
            if id(inode) not in done:
                done.add(id(inode))
                inode.crash(loss, keep)
        self.kill()

    def kill(self) -> None:
        """Simulate the end of the process: the operating system continues, and its cache still holds all writes."""
        self.boots += 1
        self.errors = self._new_errors()
        self._dead = False
        self._crash_at = None

    def settle(self) -> None:
        """Make everything written so far durable, even if earlier syncs failed or were false."""
        self._pending.clear()
        self._durable_names = dict(self._names)
        for inode in self._names.values():
            inode.pending.clear()

    def flip(self, name: str, offset: int, mask: int = 0xFF) -> None:
        """Flip bits of one byte of a file, as a decaying disk does."""
        self._names[name].data[offset] ^= mask

    def cut(self, name: str, size: int) -> None:
        """Remove the end of a file, as damage does."""
        del self._names[name].data[size:]

    def lose(self, name: str) -> None:
        """Remove a file, as damage does."""
        del self._names[name]
        self._durable_names.pop(name, None)

    def put(self, name: str, data: bytes) -> None:
        """Add a durable file, or replace the file of that name."""
        self._names[name] = self._durable_names[name] = Inode(bytearray(data))

    def get(self, name: str) -> bytes:
        return bytes(self._names[name].data)

    def durable(self, name: str) -> bytes:
        """Return the content of a file after a loss of every unsynced change; empty if its name is lost, too."""
        inode = self._durable_names.get(name)
        return b"" if inode is None else inode.durable()

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    def clone(self) -> MemoryDisk:
        """Return a copy with the same content, unsynced changes, switches and failures, but without a planned crash."""
        other = MemoryDisk(self._new_errors, self._power_loss, self.where)
        other.capacity, other.lying, other.divert = self.capacity, self.lying, self.divert
        other.changes, other.counts, other.boots = self.changes, dict(self.counts), self.boots
        other._failures = dict(self._failures)
        copies: dict[int, Inode] = {}

        def copy(inode: Inode) -> Inode:
            if id(inode) not in copies:
                copies[id(inode)] = inode.clone()
            return copies[id(inode)]

        other._folders = set(self._folders)
        other._names = {name: copy(inode) for name, inode in self._names.items()}
        other._durable_names = {name: copy(inode) for name, inode in self._durable_names.items()}
        other._pending = [
            (where, {name: inode and copy(inode) for name, inode in change.items()}) for where, change in self._pending
        ]
        return other

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let a checker read the disk without injected failures, and without counting its calls."""
        kept = self.errors.failed, self._failures, dict(self.counts)
        self.errors.failed, self._failures = None, {}
        try:
            yield
        finally:
            self.errors.failed, self._failures, self.counts = kept

    # -- bookkeeping of calls -----------------------------------------------------------------------

    def _enter(self, kind: Kind, name: str) -> None:
        if self._dead:
            raise Crash("the server is dead")
        if self.errors.failed is not None:
            self.errors.check()
        if kind in CHANGES:
            if self.changes == self._crash_at and not self._crash_after:
                self._dead = True
                raise self._crash_error(kind, f"before change {self.changes}, {kind} {name}")
            self.changes += 1
        count = self.counts.get(kind, 0)
        self.counts[kind] = count + 1
        if self._failures:
            number = self._failures.pop((kind, count), None)
            if number is not None:
                raise self._error(kind, name, number)

    def _leave(self) -> None:
        if self._crash_after and self._crash_at is not None and self.changes > self._crash_at:
            self._dead = True
            raise self._crash_error("", f"after change {self._crash_at}")

    def _error(self, operation: str, name: str, number: int) -> Exception:
        return self.errors.error(operation, f"{self.where}/{name}" if self.where else name, number)

    def _find(self, name: str, operation: str) -> Inode:
        inode = self._names.get(name)
        if inode is None:
            raise self._error(operation, name, errno.ENOENT)
        return inode


def _apply(names: dict[str, Inode], change: NameChange) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def _inside(folder: str, names: dict[str, Inode]) -> list[str]:
    return [path for path in names if path.startswith(f"{folder}/")]
