"""The real disk: one locked directory. Each failure names its file, its cause and the remedy."""

from __future__ import annotations

import errno as errors
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from zab.core.errors import StorageError
from zab.storage.disk import disk_error

LOCK: Final = "lock"

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS needs this: its fsync leaves the data in the drive's cache, which a power failure clears."""


def _sync(fd: int) -> None:
    if _FULL_SYNC is None:
        os.fdatasync(fd)
    else:
        fcntl.fcntl(fd, _FULL_SYNC)


class RealFile:
    """An open file of a directory."""

    def __init__(self, fd: int, name: str, where: str) -> None:
        self._fd = fd
        self._name = name
        self._where = where

    @property
    def name(self) -> str:
        return self._name

    def size(self) -> int:
        with named("look at", self._where):
            return os.fstat(self._fd).st_size

    def read(self, offset: int, length: int) -> bytes:
        with named("read", self._where):
            data = os.pread(self._fd, length, offset)
            if len(data) == length or not data:
                return data
            pieces = [data]
            while data and (missing := length - sum(map(len, pieces))) > 0:
                data = os.pread(self._fd, missing, offset + length - missing)
                pieces.append(data)
            return b"".join(pieces)

    def write(self, offset: int, data: bytes) -> None:
        try:  # without `named`, which costs too much here: every transaction calls this and `sync`
            written = os.pwrite(self._fd, data, offset)
            while written < len(data):  # a full disk writes what fits, and fails only the next call
                written += os.pwrite(self._fd, data[written:], offset + written)
        except OSError as error:
            raise disk_error("write", self._where, error.errno) from error

    def allocate(self, size: int) -> None:
        with named("allocate space for", self._where):
            length = os.fstat(self._fd).st_size
            if size <= length:
                return
            if hasattr(os, "posix_fallocate"):
                try:
                    os.posix_fallocate(self._fd, 0, size)
                    return
                except OSError as error:
                    if error.errno not in (errors.EOPNOTSUPP, errors.EINVAL, errors.ENOSYS):
                        raise
            os.ftruncate(self._fd, size)  # no reservation here, but the same zeros

    def sync(self) -> None:
        try:
            _sync(self._fd)
        except OSError as error:
            raise disk_error("sync", self._where, error.errno) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    """A directory, created if it is missing, that belongs to one process until `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with named("make", str(self.path)):
            self._make()
        with named("open", str(self.path)):
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._lock = self._take_lock()
        except BaseException:
            os.close(self._fd)
            raise

    def list(self) -> tuple[str, ...]:
        with named("list", str(self.path)):
            fd = os.open(
                ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd
            )  # other threads list, too, and need a position of their own
            try:
                with os.scandir(fd) as entries:
                    return tuple(sorted(entry.name for entry in entries if entry.name != LOCK and entry.is_file()))
            finally:
                os.close(fd)

    def open(self, name: str) -> RealFile:
        return self._open("open", name, os.O_RDWR)

    def create(self, name: str) -> RealFile:
        return self._open("create", name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def rename(self, old: str, new: str) -> None:
        with named("rename", self._where(old)):
            os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def delete(self, name: str) -> None:
        with named("delete", self._where(name)):
            os.unlink(name, dir_fd=self._fd)

    def sync_dir(self) -> None:
        with named("sync", str(self.path)):
            os.fsync(self._fd)

    def close(self) -> None:
        """Release the lock on the directory."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(self._lock)
            os.close(fd)

    def _open(self, operation: str, name: str, flags: int) -> RealFile:
        where = self._where(name)
        with named(operation, where):
            return RealFile(os.open(name, flags | os.O_CLOEXEC, 0o640, dir_fd=self._fd), name, where)

    def _where(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _make(self) -> None:
        missing = [each for each in (self.path, *self.path.parents) if not each.is_dir()]
        self.path.mkdir(parents=True, exist_ok=True)
        for each in missing:  # a directory's name must be as durable as what will be in it
            fd = os.open(each.parent, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _take_lock(self) -> int:
        """Lock the directory. The system releases the lock when the process ends, for any reason."""
        with named("lock", str(self.path)):
            fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640, dir_fd=self._fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            except BlockingIOError:
                owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(fd)
                ours = owner == str(os.getpid())
                whose = (
                    "this process already: close the store that uses it"
                    if ours
                    else f"another process (pid {owner}): stop it"
                )
                raise StorageError(
                    f"{self.path} is in use by {whose}, or give this server a directory of its own; two servers "
                    "never share one"
                ) from None
            except BaseException:
                os.close(fd)
                raise
            return fd


def in_use(path: str | os.PathLike[str]) -> bool:
    """Return whether a process holds this directory, without changing anything."""
    try:
        fd = os.open(Path(path) / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def named(operation: str, where: str) -> Iterator[None]:
    """Turn an `OSError` in the block into a `StorageError` that names the operation and the file."""
    try:
        yield
    except OSError as error:
        raise disk_error(operation, where, error.errno) from error
