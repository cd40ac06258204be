"""A log directory of the machine, locked for the life of the process."""

from __future__ import annotations

import errno as errors
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from replica.storage.files import Failing, MissingFile, Stat, StorageFailure
from replica.storage.spares import EXHAUSTED, SPARES_MAX, Spares

T = TypeVar("T")

LOCK: Final = ".lock"
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS: there an fsync leaves the data in the drive's cache, where a loss of power ends it."""


class RealFile:
    def __init__(self, files: RealFiles, fd: int, path: str) -> None:
        self._files = files
        self._fd = fd
        self._path = path

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise self._files.failure("look at", self._path, error.errno) from error

    def read(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self._fd, length, offset)
            if len(data) == length or not data:
                return data
            pieces = [data]
            while data and (missing := length - sum(map(len, pieces))) > 0:
                data = os.pread(self._fd, missing, offset + length - missing)
                pieces.append(data)
            return b"".join(pieces)
        except OSError as error:
            raise self._files.failure("read", self._path, error.errno) from error

    def write(self, offset: int, data: bytes | bytearray) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
            while written < len(data):  # a full disk writes what fits, and says so only to the next call
                written += os.pwrite(self._fd, memoryview(data)[written:], offset + written)
        except OSError as error:
            raise self._files.failure("write", self._path, error.errno) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._files.failure("truncate", self._path, error.errno) from error

    def sync(self) -> None:
        try:
            if _FULL_SYNC is None:
                os.fdatasync(self._fd)
            else:
                fcntl.fcntl(self._fd, _FULL_SYNC)
        except OSError as error:
            raise self._files.failure("sync", self._path, error.errno) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            self._files.spares.fill()


class RealFiles(Failing):
    """The directory is made if it is missing, and belongs to one process until `close`. One that another process has is
    a `StorageFailure`; one that cannot be used has `failed` from the beginning."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(str(path))
        self._root = Path(path)
        self._lock = -1
        try:
            with self._named("make", ""):
                self._root.mkdir(parents=True, exist_ok=True)
            self._lock = self._take_lock()
        except StorageFailure:
            if self.failed is None:
                raise
        self.spares = Spares(SPARES_MAX if self.failed is None else 0)

    @property
    def scarce(self) -> bool:
        return not self.spares.fill()

    def room(self) -> int:
        with self._named("look at", ""):
            found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize

    def folders(self) -> list[str]:
        with self._named("list", ""), self._patiently(partial(os.scandir, self._root)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def list(self, folder: str) -> dict[str, Stat]:
        with self._named("list", folder), self._patiently(partial(os.scandir, self._root / folder)) as entries:
            found = sorted((entry for entry in entries if entry.is_file()), key=lambda entry: entry.name)
            stats = [(entry.name, entry.stat()) for entry in found if entry.name != LOCK]
        return {name: Stat(stat.st_size, stat.st_mtime_ns // 1_000_000) for name, stat in stats}

    def open(self, path: str) -> RealFile:
        try:
            return self._open("open", path, os.O_RDWR)
        except FileNotFoundError:
            raise MissingFile(f"there is no {self.where}/{path}") from None

    def create(self, path: str) -> RealFile:
        return self._open("create", path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def rename(self, old: str, new: str) -> None:
        with self._named("rename", old):
            os.rename(self._root / old, self._root / new)

    def delete(self, path: str) -> None:
        with self._named("delete", path):
            (self._root / path).unlink(missing_ok=True)

    def make_folder(self, folder: str) -> None:
        with self._named("make", folder):
            (self._root / folder).mkdir(exist_ok=True)

    def rename_folder(self, old: str, new: str) -> None:
        self.rename(old, new)

    def delete_folder(self, folder: str) -> None:
        with self._named("delete", folder):
            self._patiently(partial(shutil.rmtree, self._root / folder))

    def sync_folder(self, folder: str) -> None:
        with self._named("sync", folder):
            fd = self._patiently(partial(os.open, self._root / folder, os.O_RDONLY))
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Whoever opens the directory next may have it."""
        self.spares.close()
        fd, self._lock = self._lock, -1
        if fd >= 0:
            os.close(fd)

    def _patiently(self, act: Callable[[], T]) -> T:
        """With a descriptor that was spared for it, if there is no other."""
        while True:
            try:
                return act()
            except OSError as error:
                if error.errno not in EXHAUSTED or not self.spares.spend():
                    raise

    def _open(self, operation: str, path: str, flags: int) -> RealFile:
        self.check()
        try:
            opened = partial(os.open, f"{self.where}/{path}", flags | os.O_CLOEXEC, 0o640)
            return RealFile(self, self._patiently(opened), path)
        except FileNotFoundError:
            if operation == "open":
                raise
            raise self.failure(operation, path, errors.ENOENT) from None
        except OSError as error:
            raise self.failure(operation, path, error.errno) from error

    @contextmanager
    def _named(self, operation: str, path: str) -> Iterator[None]:
        self.check()
        try:
            yield
        except OSError as error:
            raise self.failure(operation, path, error.errno) from error

    def _take_lock(self) -> int:
        """The system lets go of it when the process ends, however it ends."""
        with self._named("lock", LOCK):
            fd = os.open(self._root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise StorageFailure(
                f"{self.where} is in use: another broker has it. Stop that one, or give this one a log.dirs of its own"
            ) from None
        return fd
