"""Files named `damaged.*`: bounded in number and size, with a warning before the bound, and never the newest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.storage.model import append, epochs, snapshot_writes
from zab.storage.memory_disk import MemoryDisk
from zab.storage.storage import Storage, StorageSettings


def damaged_and_healed(disk: MemoryDisk, epoch: int, settings: StorageSettings) -> Storage:
    """Return a server with a damaged log that a snapshot has healed: some files are set aside."""
    storage, _ = Storage.open(disk, settings)
    storage.perform([epochs(epoch, epoch), append(f"{epoch}/1", bytes(300))])
    storage.perform([epochs(epoch, epoch, whole=False)])
    storage.perform([*snapshot_writes(f"{epoch}/9", epoch, b"state"), epochs(epoch, epoch)])
    return storage


def remains(disk: MemoryDisk) -> list[str]:
    return sorted(name for name in disk.names() if name.startswith("damaged."))


def settings(**bounds: Any) -> StorageSettings:
    return StorageSettings(preallocate=False, **bounds)


@pytest.mark.parametrize("bounds", [{"damaged_files_max": 5}, {"damaged_bytes_max": 1_600}])
def test_remains_of_earlier_damage_go_when_a_bound_is_reached_and_the_newest_stay(bounds: dict[str, int]) -> None:
    free, bound = MemoryDisk(), MemoryDisk()
    for epoch in range(1, 12):
        damaged_and_healed(free, epoch, settings()).close()
        damaged_and_healed(bound, epoch, settings(**bounds)).close()
        newest = [name for name in remains(free) if name.endswith(f".{epoch:x}00000001")]
        assert newest
        assert set(newest) <= set(remains(bound))
    assert len(remains(free)) > 15
    assert len(remains(bound)) <= bounds.get("damaged_files_max", 99)
    assert sum(len(bound.get(name)) for name in remains(bound)) <= bounds.get("damaged_bytes_max", 1 << 20)


def test_remains_larger_than_the_bound_stay_until_there_is_more_damage() -> None:
    disk = MemoryDisk()
    tight = settings(damaged_files_max=1, damaged_bytes_max=1)
    storage = damaged_and_healed(disk, 1, tight)
    kept = remains(disk)
    assert kept
    storage.perform([*snapshot_writes("1/20", 1, b"state"), epochs(1, 1)])
    assert remains(disk) == kept, "a snapshot that replaces a sound history sets nothing aside"


def test_start_warns_when_half_of_a_bound_is_used_up() -> None:
    disk = MemoryDisk()
    damaged_and_healed(disk, 1, settings()).close()
    count = len(remains(disk))
    few, _ = Storage.open(disk, settings(damaged_files_max=2 * count))
    assert few.rotten == ()
    few.close()
    many, _ = Storage.open(disk, settings(damaged_files_max=2 * count - 1))
    (warning,) = many.rotten
    assert f"damaged_files_max = {2 * count - 1} (db.damagedFilesMax in zoo.cfg)" in warning
    assert "(db.damagedSizeLimitInKb)" in warning
    assert warning in many.notes
    assert many.warnings == (warning,), "the kept files show earlier damage, not a failing disk"
