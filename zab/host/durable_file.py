"""Replace a file so that a crash at any point leaves the old file or the new one.

A server writes its data directory with `zab.storage.disk.write_atomically` instead, on a disk that tests can crash at
every call.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_ANYBODY: Final = 0o666


def replace_file(path: Path, chunks: Iterable[bytes], *, mode: int = _ANYBODY, like: Path | None = None) -> None:
    """Write `chunks` to `path` + ".tmp", then rename. On return the new content and its name are durable.

    `mode` is reduced by the umask. With `like` the file gets the permissions of that file instead: a copy of a file
    with passwords is as secret as the original. An error before or in the rename leaves `path` unchanged, and the
    temporary file is removed. After the rename only the fsync of the directory can fail: then the new name may not be
    durable.
    """
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)  # left by a crash, with the mode of that time
    if like is not None:
        mode = like.stat().st_mode & 0o777
    try:
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            if like is not None:
                os.fchmod(file.fileno(), mode)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())  # otherwise the rename may survive a crash without the content
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
