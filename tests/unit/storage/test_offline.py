"""The membership that a directory remembers, read and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from tests.unit.storage.model import ENSEMBLE, z
from zab.core.ready import SaveEpochs
from zab.core.zxid import Epoch
from zab.storage.epochs import EpochsFile
from zab.storage.offline import next_version, replace_membership, stored_membership
from zab.storage.real_disk import RealDisk
from zab.storage.storage import Storage, StorageSettings


def test_stored_membership_is_replaced_and_promises_stay(tmp_path: Path) -> None:
    assert stored_membership(tmp_path / "none") is None
    disk = RealDisk(tmp_path)
    storage, _ = Storage.open(disk)
    storage.perform([SaveEpochs(1, Epoch(3), Epoch(2), evolve(ENSEMBLE, version=z("0/0")))])
    assert stored_membership(tmp_path) is None, "before any epoch the file counts"
    storage.perform([SaveEpochs(2, Epoch(3), Epoch(2), evolve(ENSEMBLE, version=z("2/1")))])
    storage.close()
    assert stored_membership(tmp_path) == evolve(ENSEMBLE, version=z("2/1"))
    other = evolve(ENSEMBLE, servers=ENSEMBLE.servers[:1])
    assert replace_membership(disk, other, StorageSettings()) == evolve(other, version=z("3/0"))
    record = EpochsFile.read(disk)[0].record
    disk.close()
    assert (record.accepted, record.current, stored_membership(tmp_path)) == (3, 2, evolve(other, version=z("3/0")))


@pytest.mark.parametrize(
    ("before", "last", "accepted", "version"),
    [
        ("1/0", "1/7", 1, "2/0"),
        ("4/2", "3/7", 4, "5/0"),
        ("1/0", "5/7", 6, "6/0"),
        ("2/0", "1/7", 1, "2/0"),  # made by force, and nothing has begun with it
        ("2/0", "1/7", 2, "3/0"),
        ("2/0", "2/7", 1, "3/0"),
    ],
)
def test_a_version_lies_behind_all_that_is_logged(before: str, last: str, accepted: int, version: str) -> None:
    assert next_version(z(before), z(last), Epoch(accepted)) == z(version)
