"""One directory on a disk: the minimum that a write-ahead log, snapshots and an atomically replaced record need.

All other storage code uses only this protocol. The tests run it on a memory disk that tears, loses and flips bytes.
Guarantees:

- Bytes are durable once `sync` of their file returned; names are durable once `sync_dir` returned. Before that a crash
  may keep or lose any 512-byte sector of any write and any change of a name, in any order.
- A rename is atomic: after a crash either the old names are there or the new ones.
- Bytes that were never written read as zeros.
- Every failure is a `StorageError`. After one, everything written since the last `sync` is in doubt for ever: a later
  `sync` that succeeds proves nothing.
"""

from __future__ import annotations

import errno as errors
import os
from typing import Final, Protocol

from zab.core.errors import DamagedError, StorageError

SECTOR: Final = 512
"""The largest unit that a crash is trusted not to tear. Real disks tear larger units, but not smaller ones."""


class DiskFile(Protocol):
    """An open file. It stays readable when its name is deleted or taken over by a rename."""

    @property
    def name(self) -> str: ...

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end of the file."""
        ...

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`. A gap after the former end of the file reads as zeros."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least this long, with zeros, and reserve the space for it."""
        ...

    def sync(self) -> None:
        """Make everything written to the file so far durable."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The files of one directory, by name. Names are plain: no slash, no leading dot."""

    def list(self) -> tuple[str, ...]:
        """Return all names, ascending."""
        ...

    def open(self, name: str) -> DiskFile: ...

    def create(self, name: str) -> DiskFile:
        """Create an empty file, or empty the file of that name."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically. An existing `new` is replaced."""
        ...

    def delete(self, name: str) -> None: ...

    def sync_dir(self) -> None:
        """Make every create, rename and delete so far durable."""
        ...

    def close(self) -> None: ...


_ADVICE: Final = {
    errors.ENOSPC: "free some space on this disk, then start the server again",
    errors.EDQUOT: "raise the quota or free some space, then start the server again",
    errors.EFBIG: "raise the file size limit of the process (ulimit -f), then start the server again",
    errors.EIO: "the disk is failing: check the kernel log, replace the disk, let the server heal from the others",
    errors.EROFS: "the file system is read-only, often after an error: check the kernel log, then mount it writable",
    errors.EACCES: "give the user that runs the server read and write permission here",
    errors.EPERM: "give the user that runs the server read and write permission here",
    errors.ENOENT: "the file or its directory is missing: was it removed while the server ran?",
    errors.EMFILE: "raise the limit of open files of the process (ulimit -n), then start the server again",
    errors.ENOTDIR: "the data directory must be a directory",
    errors.EEXIST: "the data directory must be a directory, and this is something else",
}


def disk_error(operation: str, where: str, number: int | None) -> StorageError:
    """Return the error of a disk: the operation, the file, the system's error, and the remedy."""
    code = errors.errorcode.get(number or 0, "unknown error")
    said = os.strerror(number) if number else "no reason given"
    advice = _ADVICE.get(number or 0, "see the kernel log")
    if operation == "make" and number == errors.ENOENT:
        advice = "no directory can be made there: choose another place for the data"
    # An unreadable sector is damage like any other: the other servers can heal it, so this server need not stop.
    kind = DamagedError if operation == "read" and number == errors.EIO else StorageError
    return kind(f"cannot {operation} {where}: {said} ({code}); {advice}")


def other_version(name: str, found: int, known: int) -> StorageError:
    """Report a file of another version. This is no damage: healing would throw away what the right program can read."""
    return StorageError(
        f"{name} is of format {found}, and this program knows format {known} only: "
        "start the version of the program that wrote it"
    )


def read_all(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_durably(disk: Disk, name: str, data: bytes) -> None:
    """Replace the content of `name`. After a crash at any point it is either the old content or all of `data`."""
    temporary = f"{name}.tmp"
    file = disk.create(temporary)
    try:
        file.write(0, data)
        file.sync()  # without this the rename may survive a crash and the content not
    finally:
        file.close()
    disk.rename(temporary, name)
    disk.sync_dir()
