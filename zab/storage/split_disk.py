"""Two directories as one disk: the log in one, everything else in the other.

Clients wait for the syncs of the log. A snapshot writes many megabytes at once, and on the same disk it delays these
syncs. So the log may have a directory of its own, on another disk. A file's name determines its directory; all other
code uses one `Disk`.
"""

from __future__ import annotations

from typing import Final

from zab.core.errors import ConfigError
from zab.storage.disk import Disk, DiskFile
from zab.storage.epochs import ASIDE
from zab.storage.segment import PREFIX

_LOGS: Final = (PREFIX, ASIDE + PREFIX)


class SplitDisk:
    """Two directories as one. No other process may use either."""

    def __init__(self, main: Disk, log: Disk) -> None:
        self._main = main
        self._log = log
        self.path, self.log_path = getattr(main, "path", None), getattr(log, "path", None)
        stray = [name for name in main.list() if name.startswith(_LOGS)]
        if stray:
            raise ConfigError(
                f"{stray[0]} is in the data directory, but the log has a directory of its own: "
                f"while the server is stopped, move all {PREFIX}* and {ASIDE}{PREFIX}* to "
                f"{self.log_path or 'that directory'}"
            )

    def _of(self, name: str) -> Disk:
        return self._log if name.startswith(_LOGS) else self._main

    def list(self) -> tuple[str, ...]:
        logs = [name for name in self._log.list() if name.startswith(_LOGS)]
        return tuple(sorted([*self._main.list(), *logs]))

    def open(self, name: str) -> DiskFile:
        return self._of(name).open(name)

    def create(self, name: str) -> DiskFile:
        return self._of(name).create(name)

    def rename(self, old: str, new: str) -> None:
        assert self._of(old) is self._of(new), "a rename is atomic inside one directory only"
        self._of(old).rename(old, new)

    def delete(self, name: str) -> None:
        self._of(name).delete(name)

    def sync_dir(self, folder: str = "") -> None:
        self._log.sync_dir(folder)
        self._main.sync_dir(folder)

    def close(self) -> None:
        try:
            self._log.close()
        finally:
            self._main.close()
