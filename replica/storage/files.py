"""The files of one log directory, as little of them as logs need: on the machine's disk, or in memory.

What may be relied on is little:

* Bytes are durable once `sync` of their file returned, names once `sync_folder` returned. Before that a crash may keep
  or lose any 512-byte sector of any write, and any change of a name, in any order.
* A rename is atomic.
* A failure is a `StorageFailure`, and the last word: after the first one the whole directory fails every call.
  What was written since the last sync is in doubt for ever, and a second sync that says "done" proves nothing.
"""

from __future__ import annotations

import errno as errors
import os
from collections import OrderedDict
from threading import Lock
from typing import Final, Protocol

from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError

OPEN_FILES_MAX: Final = 2048
"""Descriptors that the logs of one directory hold at a time; an active segment has three."""
OPEN_FILES_LEAST: Final = 16
"""However scarce they are: an operation has some of them in its hands."""

_ADVICE: Final = {
    errors.ENOSPC: "free some space on this disk, or give topics a shorter retention; then start the broker again",
    errors.EDQUOT: "raise the quota or free some space, then start the broker again",
    errors.EIO: "the disk is failing: check the kernel log, replace the disk, and let the replicas be copied again",
    errors.EROFS: "the file system is read-only, often after an error: check the kernel log, then mount it writable",
    errors.EACCES: "give the user that runs the broker read and write permission here",
    errors.EPERM: "give the user that runs the broker read and write permission here",
    errors.ENOENT: "the file or its directory is missing: was it removed while the broker ran?",
    errors.EMFILE: "raise the limit of open files of the process (ulimit -n), then start the broker again",
}


class StorageFailure(KafkaError):
    """A log directory, or one log in it, that cannot be used any more. Others carry on."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


class DamagedLog(StorageFailure):
    """What was durable is not there, or not as it was: nobody shall take a part for the whole."""


class MissingFile(StorageFailure):
    """No such file. The directory is as good as before."""


@frozen
class Stat:
    size: int
    modified_ms: int


class File(Protocol):
    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Fewer bytes than asked for only at the end of the file."""

    def write(self, offset: int, data: bytes | bytearray) -> None: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """Paths are `name` or `folder/name`; there are no deeper ones."""

    @property
    def where(self) -> str:
        """For people: which directory this is."""

    @property
    def failed(self) -> StorageFailure | None:
        """The first failure."""

    @property
    def scarce(self) -> bool:
        """Descriptors are: whoever holds files that it does not need now had better let go of some."""

    def room(self) -> int:
        """Bytes that can still be written, about."""

    def folders(self) -> list[str]: ...

    def list(self, folder: str) -> dict[str, Stat]:
        """The files of a folder, of the directory itself for the empty name."""

    def open(self, path: str) -> File:
        """Raises `MissingFile`."""

    def create(self, path: str) -> File:
        """A new empty file; one of that name is emptied."""

    def rename(self, old: str, new: str) -> None: ...

    def delete(self, path: str) -> None:
        """Nothing happens when it is gone already."""

    def make_folder(self, folder: str) -> None: ...

    def rename_folder(self, old: str, new: str) -> None: ...

    def delete_folder(self, folder: str) -> None:
        """With all that is in it."""

    def sync_folder(self, folder: str) -> None: ...

    def close(self) -> None: ...


class Failing:
    """Remembers the first failure, and words it: what was tried with which file, what the system said, what to do."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._failed: StorageFailure | None = None

    @property
    def where(self) -> str:
        return self._where

    @property
    def failed(self) -> StorageFailure | None:
        return self._failed

    @property
    def scarce(self) -> bool:
        return False

    def failure(self, operation: str, path: str, number: int | None) -> StorageFailure:
        said = os.strerror(number) if number else "no reason given"
        code = errors.errorcode.get(number or 0, "unknown error")
        advice = _ADVICE.get(number or 0, "see the kernel log")
        whole = f"{self._where}/{path}" if path else self._where
        error = StorageFailure(f"cannot {operation} {whole}: {said} ({code}); {advice}")
        if self._failed is None:
            self._failed = error
        return error

    def check(self) -> None:
        if self._failed is not None:
            raise StorageFailure(f"{self._where} has failed before: {self._failed.text}")


class Handles:
    """Open files, the least recently used one closed when there are too many. For one thread alone."""

    def __init__(self, files: Files, open_max: int = OPEN_FILES_MAX) -> None:
        self.files = files
        self._open_max = open_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._by_folder: dict[str, dict[str, None]] = {}
        """Who forgets one of a thousand folders does not look at all that is open."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> File:
        with self._lock:
            file = self._open.get(path)
            if file is None:
                file = self._hold(path, self.files.open(path))
            else:
                self._open.move_to_end(path)
            return file

    def create(self, path: str) -> File:
        self.forget(path)
        with self._lock:
            return self._hold(path, self.files.create(path))

    def forget(self, path: str) -> None:
        """Its name is about to mean something else."""
        with self._lock:
            if path in self._open:
                self._let_go(path)

    def forget_folder(self, folder: str) -> None:
        with self._lock:
            for path in list(self._by_folder.get(folder, ())):
                self._let_go(path)

    def _hold(self, path: str, file: File) -> File:
        self._open[path] = file
        self._by_folder.setdefault(path.rpartition("/")[0], {})[path] = None
        if len(self._open) > self._open_max or (len(self._open) > OPEN_FILES_LEAST and self.files.scarce):
            self._let_go(next(iter(self._open)))
        return file

    def _let_go(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        paths = self._by_folder[folder]
        del paths[path]
        if not paths:
            del self._by_folder[folder]
        self._open.pop(path).close()

    def close(self) -> None:
        for path in list(self._open):
            self.forget(path)


def read_all(files: Files, path: str) -> bytes:
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_atomically(files: Files, path: str, data: bytes, *, durably: bool = True) -> None:
    """After a crash it holds what it held, or all of this. Not `durably`: lost power may leave it empty."""
    temporary = f"{path}.tmp"
    file = files.create(temporary)
    try:
        file.write(0, data)
        if durably:
            file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    if durably:
        files.sync_folder(path.rpartition("/")[0])


def sync(files: Files, path: str) -> None:
    """By a descriptor of its own: any thread may."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()
