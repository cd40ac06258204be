"""The log in a directory of its own."""

from __future__ import annotations

import pytest

from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError
from zab.core.ready import Append, SaveEpochs
from zab.core.zxid import Epoch, make
from zab.storage.memory_disk import MemoryDisk
from zab.storage.split_disk import SplitDisk
from zab.storage.storage import Storage, StorageSettings

ONE = Ensemble.parse("server.1=a:1:2")
SMALL = StorageSettings(segment_bytes=200, preallocate=False)


def write(disk: SplitDisk, first: int, count: int) -> None:
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([SaveEpochs(1, Epoch(1), Epoch(1), ONE)])
    for number in range(first, first + count):
        storage.perform([Append(number, pack(make(1, number), [b"x" * 50]))])
    storage.close()


def test_each_file_is_where_it_belongs_and_found_again() -> None:
    main, log = MemoryDisk(), MemoryDisk()
    write(SplitDisk(main, log), 1, 5)
    assert all(name.startswith("log.") for name in log.list())
    assert len(log.list()) > 1
    assert "epochs" in main.list()
    assert not [name for name in main.list() if name.startswith("log.")]
    storage, recovered = Storage.open(SplitDisk(main, log), SMALL)
    assert [batch.first for batch in recovered.batches] == [make(1, number) for number in range(1, 6)]
    writer = storage.snapshot_writer(make(1, 5), 0)
    writer.write(b"state")
    writer.finish()
    storage.purge(1)
    assert "snapshot.100000005" in main.list()
    assert log.list() == (storage._log.segments[-1].name,) if storage._log.segments else not log.list()
    storage.close()


def test_a_directory_that_is_still_mixed_is_refused() -> None:
    main = MemoryDisk()
    storage, _ = Storage.open(main, SMALL)
    storage.perform([SaveEpochs(1, Epoch(1), Epoch(1), ONE), Append(2, pack(make(1, 1), [b"x"]))])
    storage.close()
    with pytest.raises(ConfigError, match=r"log\.100000001 is in the data directory"):
        SplitDisk(main, MemoryDisk())


def test_a_log_that_was_left_behind_is_missed() -> None:
    main, log = MemoryDisk(), MemoryDisk()
    write(SplitDisk(main, log), 1, 2)
    _, recovered = Storage.open(SplitDisk(main, MemoryDisk()), SMALL)
    assert not recovered.voting
    assert "missing" in recovered.damage[0]
