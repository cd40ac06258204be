"""One directory on a disk: the minimum that write-ahead logs, snapshots and atomically replaced files need.

The storage of a server and the partition logs of a broker use only this protocol; the partition logs also need folders.
The tests run both on a memory disk that tears, loses and flips bytes. Guarantees:

- Bytes are durable once `sync` of their file returned; names are durable once `sync_dir` returned. Before that a crash
  may keep or lose any 512-byte sector of any write and any change of a name, in any order. It may also cut one write
  at any byte.
- A rename is atomic: after a crash either the old names are there or the new ones.
- Bytes that were never written read as zeros.
- Every failure raises an error that the disk's `DiskErrors` makes. After a failed write or sync, everything written
  since the last successful `sync` stays in doubt: a later `sync` that succeeds proves nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final, Protocol

from zab.core.errors import DamagedError, StorageError
from zab.core.frozen import frozen

SECTOR: Final = 512
"""The size of a sector in bytes. A crash keeps or loses whole sectors of a write, unless it cuts the write short."""


class DiskFile(Protocol):
    """An open file. It stays readable when its name is deleted or taken over by a rename."""

    @property
    def name(self) -> str: ...

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end of the file."""
        ...

    def write(self, offset: int, data: bytes | bytearray) -> None:
        """Write all of `data` at `offset`. A gap after the former end of the file reads as zeros."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least this long, with zeros. Reserve the space for it if the file system can."""
        ...

    def truncate(self, size: int) -> None:
        """Make the file exactly this long. New bytes are zeros."""
        ...

    def sync(self) -> None:
        """Make everything written to the file so far durable."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The files of one directory, by name. Names are plain: no slash, no leading dot."""

    def list(self) -> tuple[str, ...]:
        """Return the names of all files, ascending."""
        ...

    def open(self, name: str) -> DiskFile: ...

    def create(self, name: str) -> DiskFile:
        """Create an empty file, or empty the file of that name."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically. An existing `new` is replaced."""
        ...

    def delete(self, name: str) -> None: ...

    def sync_dir(self, folder: str = "") -> None:
        """Make all creates, renames and deletes so far in the directory, or in a folder of it, durable."""
        ...

    def close(self) -> None: ...


@frozen
class FileStat:
    """The size of a file, and the time of its last change in ms since 1970."""

    size: int
    modified_ms: int


class FolderDisk(Disk, Protocol):
    """A disk with folders. A path is `name` or `folder/name`; the folder `""` is the directory itself."""

    @property
    def where(self) -> str:
        """The directory, for messages."""
        ...

    @property
    def errors(self) -> DiskErrors: ...

    @property
    def scarce(self) -> bool:
        """True if there are too few descriptors for the reserve. Then the caller should close files not in use."""
        ...

    def room(self) -> int:
        """Return the approximate number of bytes that can still be written."""
        ...

    def folders(self) -> tuple[str, ...]:
        """Return the names of all folders, ascending."""
        ...

    def stats(self, folder: str) -> dict[str, FileStat]:
        """Return the size and the time of each file of a folder, by ascending name."""
        ...

    def discard(self, name: str) -> None:
        """Delete a file if it exists."""
        ...

    def make_folder(self, folder: str) -> None:
        """Make a folder if it does not exist."""
        ...

    def rename_folder(self, old: str, new: str) -> None: ...

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and all its files."""
        ...


ADVICE: Final = {
    errno.ENOSPC: "free some space on this disk, then start the server again",
    errno.EDQUOT: "raise the quota or free some space, then start the server again",
    errno.EFBIG: "raise the file size limit of the process (ulimit -f), then start the server again",
    errno.EIO: "the disk is failing: check the kernel log and replace the disk; then start the server with "
    "autocreate=False (db.autocreate=false in zoo.cfg), so that the leader sends it a snapshot, or restore a backup if "
    "this is the only server",
    errno.EROFS: "the file system is read-only, often after an error: check the kernel log, then mount it writable",
    errno.EACCES: "give the user that runs the server read and write permission here",
    errno.EPERM: "give the user that runs the server read and write permission here",
    errno.ENOENT: "the file or its directory is missing: was it removed while the server ran?",
    errno.EMFILE: "raise the limit of open files of the process (ulimit -n), then start the server again",
    errno.ENOTDIR: "the data directory must be a directory",
    errno.EEXIST: "the data directory must be a directory, and this is something else",
}


def failure_text(operation: str, where: str, number: int | None, advice: Mapping[int, str] = ADVICE) -> str:
    """Describe a failed call: the operation, the file, the system's error, and the remedy."""
    code = errno.errorcode.get(number or 0, "unknown error")
    said = os.strerror(number) if number else "no reason given"
    return f"cannot {operation} {where}: {said} ({code}); {advice.get(number or 0, 'see the kernel log')}"


def disk_error(operation: str, where: str, number: int | None) -> StorageError:
    """Return the error of a failed call: `DamagedError` for an unreadable sector, else `StorageError`."""
    if operation == "make" and number == errno.ENOENT:
        advice = {errno.ENOENT: "no directory can be made there: choose another place for the data"}
        return StorageError(failure_text(operation, where, number, advice))
    # An unreadable sector is damage: a snapshot from the leader can replace it, so this server need not stop.
    kind = DamagedError if operation == "read" and number == errno.EIO else StorageError
    return kind(failure_text(operation, where, number))


class DiskErrors:
    """Makes the error that a disk raises for each failed call.

    A storage that must stop after the first failure gives the disk a subclass that remembers the failure.
    """

    failed: Exception | None = None
    """The failure after which `check` raises, or None."""

    def check(self) -> None:
        """Raise if an earlier failure forbids any further call."""

    def error(self, operation: str, where: str, number: int | None) -> Exception:
        """Return the error of a failed call."""
        return disk_error(operation, where, number)

    def in_use(self, where: str, owner: str) -> Exception:
        """Return the error for a directory in use; `owner` is the pid of the process that uses it, or empty."""
        if owner == str(os.getpid()):
            holder = "this process already: close the store that uses it"
        else:
            holder = f"another process (pid {owner or 'unknown'}): stop it"
        return StorageError(
            f"{where} is in use by {holder}, or give this server a directory of its own; two servers never share one"
        )


def other_version(name: str, found: int, known: int) -> StorageError:
    """Return the error for a file of another format version.

    Such a file is not damaged: a snapshot in its place would delete data that the right version of the program can
    read.
    """
    return StorageError(
        f"{name} is of format {found}, and this program knows format {known} only: "
        "start the version of the program that wrote it"
    )


def read_all(disk: Disk, name: str) -> bytes:
    """Return the whole content of a file."""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_atomically(disk: Disk, name: str, data: bytes, *, durably: bool = True) -> None:
    """Replace the content of `name` atomically, and durably unless `durably` is False.

    If the process dies during the call, the file has either the old content or all of `data`. After a loss of power
    this holds only if `durably`; otherwise the file may be empty or torn.
    """
    temporary = f"{name}.tmp"
    file = disk.create(temporary)
    try:
        file.write(0, data)
        if durably:
            file.sync()  # otherwise the rename may survive a crash without the content
    finally:
        file.close()
    disk.rename(temporary, name)
    if durably:
        disk.sync_dir(name.rpartition("/")[0])
