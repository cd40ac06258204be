"""The epochs record: two copies, never an older state, exactly the saved values."""

from __future__ import annotations

from zlib import crc32

import pytest
from attrs import evolve

from tests.unit.storage.model import ENSEMBLE, z
from zab.core.errors import DamagedError, LocalProtocolError, StorageError
from zab.core.zxid import Epoch
from zab.storage.epochs import EpochsFile, EpochsRecord, HistoryStatus, decode, encode, middle
from zab.storage.memory_disk import MemoryDisk

RECORD = EpochsRecord(Epoch(7), Epoch(5), ENSEMBLE, HistoryStatus.HEALING, True, z("5/9"), z("5/3"))


def decoded(data: bytes) -> tuple[EpochsRecord, tuple[str, ...]]:
    half = middle(len(data))
    return decode(data[:half], data[half:])


@pytest.mark.parametrize("record", [EpochsRecord(), RECORD, evolve(RECORD, ensemble=None, accepted=Epoch(2**31 - 1))])
def test_records_round_trip(record: EpochsRecord) -> None:
    assert decoded(encode(record)) == (record, ())


def test_either_copy_is_enough() -> None:
    data = encode(RECORD)
    half = len(data) // 2
    for broken in (bytes(half) + data[half:], data[:half], data[:half] + b"\xff" * half, data[: half + 100]):
        record, notes = decoded(broken)
        assert record == RECORD
        assert len(notes) == 1
        assert "the other copy is sound" in notes[0]


@pytest.mark.parametrize("nth", [0, 1])
def test_a_sector_that_cannot_be_read_costs_one_copy_only(nth: int) -> None:
    disk = MemoryDisk()
    EpochsFile(disk, EpochsRecord()).save(RECORD)
    disk.fail("read", nth)
    epochs, notes = EpochsFile.read(disk)
    assert epochs.record == RECORD
    assert "cannot read epochs: " in notes[0]
    disk.fail("read", 0)
    disk.fail("read", 1)
    with pytest.raises(DamagedError, match="both copies are damaged: cannot read"):
        EpochsFile.read(disk)


def test_no_copy_is_too_little_and_two_different_ones_are_too_many() -> None:
    data, other = encode(RECORD), encode(evolve(RECORD, accepted=Epoch(8)))
    half = len(data) // 2
    with pytest.raises(DamagedError, match="both copies are damaged: too short; too short"):
        decoded(b"")
    with pytest.raises(DamagedError, match="differ"):
        decoded(data[:half] + other[half:])


def test_another_version_is_reported() -> None:
    data = encode(RECORD)
    text = ENSEMBLE.text().encode()
    end = data.index(text) + len(text)
    copy = bytearray(data[: len(data) // 2])
    copy[8:10] = b"\0\2"
    copy[end : end + 4] = crc32(copy[:end]).to_bytes(4, "big")
    with pytest.raises(StorageError, match="epochs is of format 2, and this program knows format 1"):
        decoded(bytes(copy) * 2)


def test_promises_are_never_taken_back() -> None:
    disk = MemoryDisk()
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.save(RECORD)
    for worse in (
        evolve(RECORD, accepted=Epoch(6)),
        evolve(RECORD, current=Epoch(4)),
        evolve(RECORD, current=Epoch(8)),
        evolve(RECORD, accepted=Epoch(2**31)),
    ):
        with pytest.raises(LocalProtocolError):
            epochs.save(worse)
    assert EpochsFile.read(disk)[0].record == epochs.record == RECORD


def test_a_promise_that_could_not_be_written_was_not_made() -> None:
    disk = MemoryDisk()
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.save(RECORD)
    for kind in ("create", "write", "sync", "rename", "sync_dir"):
        disk.fail(kind)
        with pytest.raises(StorageError, match=f"cannot {kind}"):
            epochs.save(evolve(RECORD, accepted=Epoch(9)))
        assert epochs.record == RECORD


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = MemoryDisk()
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.save(RECORD)
    changes = disk.changes
    epochs.save(RECORD)
    epochs.note(RECORD.reaches, RECORD.segment)
    assert disk.changes == changes
    again, _ = EpochsFile.read(disk)
    again.save(RECORD)
    assert disk.changes == changes


def test_a_record_that_contradicts_itself_is_damage() -> None:
    disk = MemoryDisk()
    disk.put("epochs", encode(evolve(RECORD, accepted=Epoch(4))))
    with pytest.raises(DamagedError, match="newer than the accepted"):
        EpochsFile.read(disk)


def test_committed_zxid_is_saved_with_any_record_and_never_exceeds_the_history() -> None:
    disk = MemoryDisk()
    epochs = EpochsFile(disk, EpochsRecord())
    epochs.committed = z("5/8")
    epochs.save(RECORD)
    assert EpochsFile.read(disk)[0].record.committed == z("5/8")
    epochs.committed = z("6/1")
    epochs.save(RECORD)
    assert EpochsFile.read(disk)[0].committed == RECORD.reaches
    writes = disk.changes
    epochs.save(RECORD)
    assert disk.changes == writes


def test_record_of_an_earlier_version_has_no_committed_zxid() -> None:
    record = evolve(RECORD, committed=z("5/7"))
    data = bytearray(encode(record))
    half = len(data) // 2
    length = 46 + len(ENSEMBLE.text().encode())
    for start in (length - 8, length + half - 8):
        at = data.index(b"cmtd", start - 16)
        data[at : at + 16] = bytes(16)
        if start < half:
            assert decoded(bytes(data)) == (record, ()), "the other copy has it"
    assert decoded(bytes(data)) == (RECORD, ())


def test_damaged_hint_costs_its_copy() -> None:
    record = evolve(RECORD, committed=z("5/7"))
    data = bytearray(encode(record))
    data[data.index(b"cmtd") + 5] ^= 1
    found, notes = decoded(bytes(data))
    assert found == record
    assert "first copy: the checksum of the committed zxid is wrong" in notes[0]
