"""Files named `damaged.*`: parts of histories that were damaged or given up. Above a bound, old ones are deleted."""

from __future__ import annotations

from collections.abc import Mapping

from zab.core.plurals import counted
from zab.storage.disk import Disk
from zab.storage.epochs import ASIDE


def found(disk: Disk) -> dict[str, int]:
    """Return the name and size of each file named `damaged.*`."""
    sizes = {}
    for name in disk.list():
        if name.startswith(ASIDE):
            file = disk.open(name)
            try:
                sizes[name] = file.size()
            finally:
                file.close()
    return sizes


def bound(disk: Disk, earlier: Mapping[str, int], files_max: int, bytes_max: int) -> None:
    """Delete files of earlier damage, least zxid first, until the bounds are kept or only new files are left.

    `earlier` are the files that existed before the newest were moved aside. If no name is new, all files stay.
    """
    now = found(disk)
    if now.keys() == earlier.keys():
        return
    files, size = len(now), sum(now.values())
    for name in sorted(earlier, key=_place):
        if files <= files_max and size <= bytes_max:
            break
        if now.get(name) == earlier[name]:  # otherwise a new file has replaced it
            disk.delete(name)
            files -= 1
            size -= now[name]
    disk.sync_dir()


def _place(name: str) -> tuple[int, str]:
    """Return the sort key of a file: its zxid, for logs and snapshots alike; 0 for the epochs record."""
    number = name.rpartition(".")[2]
    try:
        return int(number, 16), name
    except ValueError:
        return 0, name


def near_the_bound(disk: Disk, files_max: int, bytes_max: int) -> str | None:
    """Return a warning if more than half of a bound is used up: the next damage may delete these files. Else None."""
    now = found(disk)
    files, size = len(now), sum(now.values())
    if 2 * files <= files_max and 2 * size <= bytes_max:
        return None
    return (
        f"{size} bytes in {counted(files, 'file')} named {ASIDE}* are kept from earlier damage; the limits are "
        f"damaged_files_max = {files_max} (db.damagedFilesMax in zoo.cfg) and damaged_bytes_max = {bytes_max} "
        "(db.damagedSizeLimitInKb); when new damage takes the total above a limit, the server deletes some of "
        "these files, lowest zxid first: save those that you need, then delete them"
    )
