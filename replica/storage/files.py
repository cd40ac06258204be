"""The log directories of a broker on `zab.storage.disk`: their errors and their open files.

The first failure of a directory is final: its logs are offline until the broker restarts. After a failed sync it is
unknown which writes are durable, and a later sync that succeeds does not change that. Other directories of the broker
continue.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from threading import Lock
from typing import Final

from replica.core.errors import ErrorCode, KafkaError
from zab.storage.disk import ADVICE, DiskErrors, DiskFile, FolderDisk, failure_text
from zab.storage.real_disk import RealDisk

LOCK: Final = ".lock"
"""The file in a log directory that the broker locks, as Kafka does."""
RESERVE: Final = 32
"""The number of file descriptors that each log directory keeps for calls made while the process has no other left."""
OPEN_FILES_MAX: Final = 2048
"""The number of file descriptors that the logs of one directory may keep open. An active segment uses three, or four
with a transaction index."""
OPEN_FILES_LEAST: Final = 16
"""The number of files that stay open even if descriptors are scarce, because one operation uses several."""

_ADVICE: Final = {number: text.replace("the server", "the broker") for number, text in ADVICE.items()} | {
    errno.ENOSPC: "free some space on this disk, or give topics a shorter retention; then start the broker again",
    errno.EIO: "the disk is failing: check the kernel log, replace the disk, and let the replicas be copied again",
}


class StorageFailure(KafkaError):
    """A log directory, or a log or file in it, cannot be used."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


class DamagedLog(StorageFailure):
    """A file is malformed, or durable records are missing or changed. A log that lacks durable records must not be
    served as if it were complete."""


class MissingFile(StorageFailure):
    """The file does not exist, but the directory is usable."""


class FirstFailure(DiskErrors):
    """The errors of a log directory. The first failure ends its use; a missing file does not."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.failed: StorageFailure | None = None

    def check(self) -> None:
        if self.failed is not None:
            raise StorageFailure(f"{self.where} has been unusable since an earlier failure: {self.failed.text}")

    def error(self, operation: str, where: str, number: int | None) -> StorageFailure:
        if operation == "open" and number == errno.ENOENT:
            return MissingFile(f"the file {where} does not exist")
        error = StorageFailure(failure_text(operation, where, number, _ADVICE))
        if self.failed is None:
            self.failed = error
        return error

    def in_use(self, where: str, owner: str) -> StorageFailure:
        return StorageFailure(
            f"{where} is in use by another broker. Stop that broker, or configure other log.dirs for this one"
        )


def log_directory(path: str) -> RealDisk:
    """Open and lock a log directory. If its disk fails, return it as failed; if another process uses it, raise."""
    return RealDisk(path, FirstFailure(path), lock=LOCK, reserve=RESERVE)


class Handles:
    """The open files of a log directory. When there are too many, the least recently used one is closed."""

    def __init__(self, files: FolderDisk, open_max: int = OPEN_FILES_MAX) -> None:
        self.files = files
        self._open_max = open_max
        self._open: OrderedDict[str, DiskFile] = OrderedDict()
        self._by_folder: dict[str, dict[str, None]] = {}
        """The paths in `_open` by folder, so that `forget_folder` does not scan all of them."""
        self._lock = Lock()

    @property
    def failed(self) -> StorageFailure | None:
        """The first failure of the directory, or None."""
        failed = self.files.errors.failed
        assert failed is None or isinstance(failed, StorageFailure)
        return failed

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> DiskFile:
        with self._lock:
            file = self._open.get(path)
            if file is None:
                file = self._hold(path, self.files.open(path))
            else:
                self._open.move_to_end(path)
            return file

    def create(self, path: str) -> DiskFile:
        self.forget(path)
        with self._lock:
            return self._hold(path, self.files.create(path))

    def forget(self, path: str) -> None:
        """Close the file if it is open. Call this before the name is used for another file."""
        with self._lock:
            if path in self._open:
                self._let_go(path)

    def forget_folder(self, folder: str) -> None:
        with self._lock:
            for path in list(self._by_folder.get(folder, ())):
                self._let_go(path)

    def _hold(self, path: str, file: DiskFile) -> DiskFile:
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


def sync(files: FolderDisk, path: str) -> None:
    """Sync a file through a descriptor of its own, which is safe in any thread."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()
