"""The real disk: one locked directory. Each failure names its file, its cause and the remedy."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from zab.storage.descriptor_reserve import DescriptorReserve
from zab.storage.disk import DiskErrors, FileStat

LOCK: Final = "lock"
LOCK_PAUSES_S: Final = (0.01, 0.05, 0.0)
"""The pauses after attempts to lock a directory. `in_use` holds the lock for a moment, which must refuse no server."""

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""The `fcntl` command for a full sync on macOS, where fsync leaves data in the drive's cache; None elsewhere."""
_PLAIN: Final = DiskErrors()
_NO_RESERVE: Final = DescriptorReserve(0)


def _sync(fd: int) -> None:
    if _FULL_SYNC is None:
        os.fdatasync(fd)
    else:
        fcntl.fcntl(fd, _FULL_SYNC)


class RealFile:
    """An open file of a directory. Its hot calls translate errors themselves: `named` costs too much there."""

    def __init__(
        self, fd: int, name: str, where: str, errors: DiskErrors = _PLAIN, reserve: DescriptorReserve = _NO_RESERVE
    ) -> None:
        self._fd = fd
        self._name = name
        self._where = where
        self._errors = errors
        self._reserve = reserve
        """Filled up when this file's descriptor is free again."""

    @property
    def name(self) -> str:
        return self._name

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise self._errors.error("inspect", self._where, error.errno) from error

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
            raise self._errors.error("read", self._where, error.errno) from error

    def write(self, offset: int, data: bytes | bytearray) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
            while written < len(data):  # a full disk writes what fits, and fails only the next call
                written += os.pwrite(self._fd, memoryview(data)[written:], offset + written)
        except OSError as error:
            raise self._errors.error("write", self._where, error.errno) from error

    def allocate(self, size: int) -> None:
        with named("allocate space for", self._where, self._errors):
            length = os.fstat(self._fd).st_size
            if size <= length:
                return
            if hasattr(os, "posix_fallocate"):
                try:
                    os.posix_fallocate(self._fd, 0, size)
                    return
                except OSError as error:
                    if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                        raise
            os.ftruncate(self._fd, size)  # without a reservation of space, but the same zeros

    def truncate(self, size: int) -> None:
        with named("truncate", self._where, self._errors):
            os.ftruncate(self._fd, size)

    def sync(self) -> None:
        try:
            _sync(self._fd)
        except OSError as error:
            raise self._errors.error("sync", self._where, error.errno) from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            self._reserve.fill()


class RealDisk:
    """A directory, created if it is missing, that belongs to one process until `close`.

    If `errors` remembers the first failure, the constructor does not raise it; every later call does.
    `reserve` descriptors are kept for calls that are made while the process has no other left.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        errors: DiskErrors | None = None,
        *,
        lock: str = LOCK,
        reserve: int = 0,
    ) -> None:
        self.path = Path(path)
        self.where = str(self.path)
        self.errors = errors or DiskErrors()
        self._lock_name = lock
        self._fd = self._lock = -1
        self._reserve = _NO_RESERVE
        try:
            with self._named("make", self.where):
                self._make()
            with self._named("open", self.where):
                self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._take_lock()
        except BaseException as error:
            self.close()
            if error is not self.errors.failed:
                raise
        else:
            self._reserve = DescriptorReserve(reserve)

    @property
    def scarce(self) -> bool:
        return not self._reserve.fill()

    def room(self) -> int:
        with self._named("inspect", self.where):
            found = os.statvfs(self._fd)
        return found.f_bavail * found.f_frsize

    # -- files ---------------------------------------------------------------------------------------

    def list(self) -> tuple[str, ...]:
        with self._named("list", self.where), self._scan("") as entries:
            return tuple(sorted(entry.name for entry in entries if self._is_file(entry)))

    def stats(self, folder: str) -> dict[str, FileStat]:
        with self._named("list", self._where(folder)), self._scan(folder) as entries:
            found = sorted((entry.name, entry.stat()) for entry in entries if self._is_file(entry))
        return {name: FileStat(stat.st_size, stat.st_mtime_ns // 1_000_000) for name, stat in found}

    def open(self, name: str) -> RealFile:
        return self._open("open", name, os.O_RDWR)

    def create(self, name: str) -> RealFile:
        return self._open("create", name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def rename(self, old: str, new: str) -> None:
        with self._named("rename", self._where(old)):
            os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def delete(self, name: str) -> None:
        with self._named("delete", self._where(name)):
            os.unlink(name, dir_fd=self._fd)

    def discard(self, name: str) -> None:
        with self._named("delete", self._where(name)), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def sync_dir(self, folder: str = "") -> None:
        with self._named("sync", self._where(folder)):
            if not folder:
                os.fsync(self._fd)
                return
            fd = self._reserve.run(partial(self._open_folder, folder))
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    # -- folders -------------------------------------------------------------------------------------

    def folders(self) -> tuple[str, ...]:
        with self._named("list", self.where), self._scan("") as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir()))

    def make_folder(self, folder: str) -> None:
        with self._named("make", self._where(folder)), suppress(FileExistsError):
            os.mkdir(folder, dir_fd=self._fd)

    def rename_folder(self, old: str, new: str) -> None:
        self.rename(old, new)

    def delete_folder(self, folder: str) -> None:
        with self._named("delete", self._where(folder)):
            self._reserve.run(partial(shutil.rmtree, folder, dir_fd=self._fd))

    def close(self) -> None:
        """Release the lock on the directory, and close all descriptors but those of open files."""
        self._reserve.close()
        lock, self._lock, fd, self._fd = self._lock, -1, self._fd, -1
        for each in (lock, fd):
            if each >= 0:
                os.close(each)

    # -- common to all operations --------------------------------------------------------------------

    def _named(self, operation: str, where: str) -> AbstractContextManager[None]:
        self.errors.check()
        return named(operation, where, self.errors)

    def _open(self, operation: str, name: str, flags: int) -> RealFile:
        self.errors.check()
        where = self._where(name)
        try:
            fd = self._reserve.run(partial(os.open, name, flags | os.O_CLOEXEC, 0o640, dir_fd=self._fd))
        except OSError as error:
            raise self.errors.error(operation, where, error.errno) from error
        return RealFile(fd, name, where, self.errors, self._reserve)

    def _open_folder(self, folder: str) -> int:
        return os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._fd)

    @contextmanager
    def _scan(self, folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        # A new descriptor for each call: threads with a shared one would move each other's position in the listing.
        fd = self._reserve.run(partial(self._open_folder, folder))
        try:
            with self._reserve.run(partial(os.scandir, fd)) as entries:
                yield entries
        finally:
            os.close(fd)

    def _is_file(self, entry: os.DirEntry[str]) -> bool:
        return entry.name != self._lock_name and entry.is_file()

    def _where(self, name: str) -> str:
        return f"{self.where}/{name}" if name else self.where

    def _make(self) -> None:
        missing = [each for each in (self.path, *self.path.parents) if not each.is_dir()]
        self.path.mkdir(parents=True, exist_ok=True)
        for each in missing:  # make the name of the directory durable before its content
            fd = os.open(each.parent, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _take_lock(self) -> None:
        """Lock the directory. The system releases the lock when the process ends, for any reason."""
        with self._named("lock", self._where(self._lock_name)):
            self._lock = os.open(self._lock_name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640, dir_fd=self._fd)
            for pause_s in LOCK_PAUSES_S:
                with suppress(BlockingIOError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(pause_s)
            else:
                owner = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
                raise self.errors.in_use(self.where, owner)
            with suppress(OSError):  # a full disk must still be opened, to read it and to free space
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)


def in_use(path: str | os.PathLike[str]) -> bool:
    """Return whether a process has locked this directory. Change nothing.

    This takes a shared lock for a moment, because no call shows a lock of `flock`. F_GETLK shows locks of `fcntl` only,
    and a process loses such a lock when it closes any descriptor of the file.
    """
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
def named(operation: str, where: str, errors: DiskErrors = _PLAIN) -> Iterator[None]:
    """Turn an `OSError` in the block into an error that names the operation and the file."""
    try:
        yield
    except OSError as error:
        raise errors.error(operation, where, error.errno) from error
