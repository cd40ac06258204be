"""Looking at a directory, and founding one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, LocalProtocolError
from zab.core.ready import Append, SaveEpochs
from zab.core.zxid import Epoch, make
from zab.storage.inspection import ReadOnlyDisk, history, is_ours, log_files
from zab.storage.memory_disk import MemoryDisk
from zab.storage.offline import found_history
from zab.storage.real_disk import LOCK, RealDisk, in_use
from zab.storage.storage import Storage, StorageSettings

ONE = Ensemble.parse("server.1=a:1:2")
SMALL = StorageSettings(segment_bytes=300, preallocate=False)


def fill(path: Path, count: int = 6) -> None:
    disk = RealDisk(path)
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([SaveEpochs(1, Epoch(1), Epoch(1), ONE)])
    for number in range(1, count + 1):
        storage.perform([Append(number, pack(make(1, number), [b"payload %d" % number * 5]))])
    storage.close()
    disk.close()


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_inspection_reports_a_whole_history_and_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    before = contents(tmp_path)
    disk = ReadOnlyDisk(tmp_path)
    told = history(disk)
    assert (told.last, told.damage, told.newest, told.torn) == (make(1, 6), (), None, False)
    assert [batch.last for batch in told.batches] == [make(1, number) for number in range(1, 7)]
    files = list(log_files(disk))
    assert len(files) > 1
    assert [file.trouble for file in files] == [None] * len(files)
    assert contents(tmp_path) == before


def test_inspected_storage_is_read_only(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = ReadOnlyDisk(tmp_path)
    for change in (lambda: disk.create("x"), lambda: disk.rename("epochs", "x"), lambda: disk.delete("epochs")):
        with pytest.raises(LocalProtocolError):
            change()


def test_inspection_reports_damage_and_keeps_the_history_before_it(tmp_path: Path) -> None:
    fill(tmp_path)
    second = sorted(file.name for file in tmp_path.glob("log.*"))[1]
    raw = bytearray((tmp_path / second).read_bytes())
    raw[60] ^= 0xFF
    (tmp_path / second).write_bytes(raw)
    told = history(ReadOnlyDisk(tmp_path))
    assert told.damage
    assert second in told.damage[0]
    assert [batch.last for batch in told.batches] == [make(1, number) for number in range(1, len(told.batches) + 1)]
    assert 0 < len(told.batches) < 6
    assert [file.name for file in log_files(ReadOnlyDisk(tmp_path)) if file.trouble] == [second]


def test_without_its_record_a_history_is_damaged_and_all_of_it_is_there(tmp_path: Path) -> None:
    fill(tmp_path)
    raw = (tmp_path / "epochs").read_bytes()
    (tmp_path / "epochs").write_bytes(bytes(len(raw)))
    told = history(ReadOnlyDisk(tmp_path))
    assert "both copies are damaged" in told.damage[0]
    assert told.last == make(1, 6)


def test_owner_of_a_directory_is_read_without_changes(tmp_path: Path) -> None:
    assert not in_use(tmp_path)
    assert not list(tmp_path.iterdir())
    disk = RealDisk(tmp_path)
    assert in_use(tmp_path)
    disk.close()
    assert not in_use(tmp_path)


def test_look_at_a_directory_refuses_no_server_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RealDisk(tmp_path).close()
    looks = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)
    monkeypatch.setattr("zab.storage.real_disk.time.sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
    RealDisk(tmp_path).close()
    os.close(looks)


def test_founded_history_begins_at_the_given_zxid() -> None:
    disk = MemoryDisk()
    found_history(disk, make(7, 3), [b"one", b"two"], Epoch(9))
    assert is_ours(disk)
    storage, recovered = Storage.open(disk)
    assert (recovered.snapshot, recovered.voting, recovered.accepted, recovered.current) == (make(7, 3), True, 9, 9)
    assert list(storage.read_snapshot(make(7, 3))) == [b"one", b"two"]
    assert storage.last == make(7, 3)
    storage.close()
    with pytest.raises(ConfigError, match="there is a history already"):
        found_history(disk, make(7, 3), [])


def test_founding_that_was_interrupted_is_no_history() -> None:
    def broken() -> list[bytes]:
        raise ZeroDivisionError

    disk = MemoryDisk()
    with pytest.raises(ZeroDivisionError):
        found_history(disk, make(7, 3), (chunk for _ in [0] for chunk in broken()))
    assert not [name for name in disk.list() if not name.endswith(".tmp")]
