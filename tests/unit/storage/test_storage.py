"""The interface of storage: disk calls of each write, refusals, reading back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.unit.storage.model import (
    ENSEMBLE,
    TINY,
    append,
    batch,
    entries_of,
    epochs,
    snapshot_writes,
    z,
)
from zab.core.errors import ConfigError, DamagedError, LocalProtocolError, StorageError
from zab.core.ready import AbortSnapshot, Append, BeginSnapshot, InstallSnapshot, Recovered, SnapshotChunk, Truncate
from zab.core.zxid import NOTHING, UNKNOWN, Epoch, Zxid, make
from zab.storage.log_reader import Purged
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.storage import Storage, StorageSettings

ROOMY = StorageSettings(preallocate=False)


def begun(settings: StorageSettings = ROOMY, epoch: int = 1) -> tuple[MemoryDisk, Storage]:
    disk = MemoryDisk()
    storage, _ = Storage.open(disk, settings)
    storage.perform([epochs(epoch, epoch)])
    return disk, storage


@pytest.mark.parametrize("capacity", [8 << 20, 17 << 20])
def test_disk_without_room_for_the_first_log_file_is_refused_at_the_start(capacity: int) -> None:
    disk = MemoryDisk()
    disk.capacity = capacity
    storage, _ = Storage.open(disk)
    before = disk.list()
    if capacity < 16 << 20:
        with pytest.raises(StorageError, match="No space left on device .* A log file takes 16,777,216 bytes"):
            storage.check_room()
    else:
        storage.check_room()
    assert disk.list() == before


def reopened(disk: MemoryDisk, settings: StorageSettings = ROOMY) -> tuple[Storage, Recovered]:
    disk.crash()
    return Storage.open(disk, settings)


# -- the beginning -------------------------------------------------------------------------------------


def test_empty_directory_begins_a_history_with_autocreate() -> None:
    disk = MemoryDisk()
    storage, recovered = Storage.open(disk)
    assert recovered == Recovered(Epoch(0), Epoch(0))
    assert (storage.last, storage.log_start, storage.newest_snapshot) == (NOTHING, NOTHING, None)
    assert storage.notes == ("the directory holds no history: this server begins with an empty history",)
    assert reopened(disk)[1] == recovered


def test_an_empty_directory_may_also_be_a_lost_one() -> None:
    disk = MemoryDisk()
    settings = StorageSettings(autocreate=False, preallocate=False)
    storage, recovered = Storage.open(disk, settings)
    assert recovered == Recovered(Epoch(0), Epoch(0), voting=False, forgotten=True)
    assert storage.last == UNKNOWN
    storage.perform([epochs(4, 0, whole=False, forgotten=True)])
    # Once it follows somebody it is no beginning any more, whatever the setting says.
    storage, recovered = reopened(disk, ROOMY)
    assert recovered == Recovered(Epoch(4), Epoch(0), ENSEMBLE, voting=False, forgotten=True)
    storage.perform([*snapshot_writes("3/7", 1, b"state"), append("3/8", b"a")])
    storage, recovered = reopened(disk, ROOMY)
    assert recovered == Recovered(Epoch(4), Epoch(0), ENSEMBLE, voting=False, forgotten=True)
    storage.perform([*snapshot_writes("3/7", 1, b"state"), append("3/8", b"a")])
    storage.perform([epochs(4, 4, forgotten=True)])
    _, recovered = reopened(disk, ROOMY)
    assert recovered == Recovered(
        Epoch(4),
        Epoch(4),
        ENSEMBLE,
        z("3/7"),
        1,
        (batch("3/8", b"a"),),
        z("3/7"),
        forgotten=True,
        committed=z("3/7"),
    )


def test_files_of_others_are_left_alone() -> None:
    disk = MemoryDisk()
    disk.put("myid", b"1")
    disk.put("notes.tmp", b"")
    disk.put("snapshot.zz", b"")
    _, recovered = Storage.open(MemoryDisk())
    assert recovered.voting
    disk.put("epochs.tmp", b"half")
    disk.lose("snapshot.zz")
    _, recovered = Storage.open(disk)
    assert recovered.voting
    assert disk.names() == ("epochs", "myid", "notes.tmp")


# -- what it costs ---------------------------------------------------------------------------------------


def test_a_group_is_one_write_and_one_sync() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    before = dict(disk.counts)
    storage.perform([append(f"1/{number}", b"x" * 100) for number in range(2, 102)])
    spent = {kind: disk.counts[kind] - before.get(kind, 0) for kind in disk.counts}
    assert {kind: number for kind, number in spent.items() if number} == {"write": 1, "sync": 1}


def test_epochs_behind_a_group_cost_one_more_sync_and_a_rename() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    before = dict(disk.counts)
    storage.perform([append("1/2", b"b"), append("1/3", b"c"), epochs(2, 1)])
    spent = {kind: disk.counts[kind] - before.get(kind, 0) for kind in disk.counts}
    assert (spent["sync"], spent["rename"], spent["sync_dir"]) == (2, 1, 1)


def test_nothing_to_write_costs_nothing() -> None:
    disk, storage = begun()
    changes = disk.changes
    storage.perform([])
    storage.perform([epochs(1, 1)])
    assert disk.changes == changes


def test_a_snapshot_that_arrives_is_not_synced_chunk_by_chunk() -> None:
    disk, storage = begun()
    before = disk.counts["sync"]
    storage.perform([BeginSnapshot(0, z("1/9"))])
    for _ in range(100):
        storage.perform([SnapshotChunk(0, b"x" * 5000)])
    assert disk.counts["sync"] == before
    storage.perform([AbortSnapshot(0)])
    assert disk.names() == ("epochs",)


def test_a_group_larger_than_memory_should_hold_is_written_piece_by_piece() -> None:
    disk, storage = begun()
    storage.perform([append(f"1/{number}", b"x" * 500_000) for number in range(1, 8)])
    assert disk.counts["write"] > 3
    assert len(reopened(disk)[1].batches) == 7


def test_zeros_are_written_ahead_in_a_preallocated_file() -> None:
    disk, storage = begun(StorageSettings(segment_bytes=2 << 20, preallocate=True))
    storage.perform([append("1/1", b"a")])
    assert len(disk.get("log.100000001")) == 2 << 20
    writes = disk.counts["write"]
    storage.perform([append(f"1/{number}", b"x" * 3000) for number in range(2, 690)])
    assert len(disk.get("log.100000001")) == 2 << 20, "neither the zeros nor the records go beyond"
    assert disk.counts["write"] == writes + 2, "the zeros are part of a write of records"
    assert len(reopened(disk)[1].batches) == 689


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writes", "why"),
    [
        ([append("1/4", b"a")], "1/4 does not follow 1/2: the log would have a gap"),
        ([append("1/2", b"a")], "1/2 does not follow 1/2"),
        ([append("2/1", b"a")], "an epoch that this server has not accepted"),
        ([epochs(0, 0)], "epochs never decrease"),
        ([epochs(1, 0)], "epochs never decrease"),
        ([epochs(1, 2)], "0 <= current <= accepted"),
        ([Truncate(0, z("1/3"))], "the log begins after 0/0, and ends at 1/2"),
        ([SnapshotChunk(0, b"")], "no snapshot is arriving"),
        ([InstallSnapshot(0, z("1/1"), 0)], "no snapshot is arriving"),
        ([BeginSnapshot(0, z("1/1")), InstallSnapshot(0, z("1/2"), 0)], "the snapshot at 1/1 is arriving"),
        (snapshot_writes("2/1", 0), "an epoch that this server has not accepted"),
    ],
)
def test_forbidden_write_is_refused_and_ends_the_storage(writes: list[Append], why: str) -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a", b"b")])
    with pytest.raises(LocalProtocolError, match=why):
        storage.perform(writes)
    with pytest.raises(StorageError, match="writes nothing more"):
        storage.perform([])
    storage, recovered = reopened(disk)
    assert recovered.batches == (batch("1/1", b"a", b"b"),)


def test_a_truncation_below_a_snapshot_is_a_bug_upstairs() -> None:
    """A snapshot contains only committed transactions, and no caller may remove these."""
    _disk, storage = begun()
    storage.perform([append("1/1", b"a", b"b", b"c")])
    writer = storage.snapshot_writer(z("1/2"), 0)
    writer.finish()
    storage.purge()
    with pytest.raises(LocalProtocolError, match="the snapshot at 1/2 is committed"):
        storage.perform([Truncate(0, z("1/1"))])


def test_truncation_to_an_unknown_zxid() -> None:
    _disk, storage = begun(epoch=3)
    storage.perform([append("1/1", b"a"), append("3/1", b"b"), append("3/2", b"c")])
    with pytest.raises(LocalProtocolError, match="the log has no such transaction"):
        storage.perform([Truncate(0, z("1/7"))])


def test_after_a_failed_sync_nothing_is_ever_written_again() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    disk.fail("sync")
    with pytest.raises(StorageError, match=r"cannot sync log.100000001: .*\(EIO\); .*replace the disk"):
        storage.perform([append("1/2", b"b")])
    changes = disk.changes
    for act in (
        lambda: storage.perform([]),
        lambda: storage.perform([append("1/2", b"b")]),
        lambda: storage.snapshot_writer(z("1/1"), 0),
        storage.purge,
    ):
        with pytest.raises(StorageError, match="writes nothing more: cannot sync log.100000001"):
            act()
    storage.close()
    assert disk.changes == changes


def test_the_settings_are_checked() -> None:
    wrongs: list[dict[str, Any]] = [{"segment_bytes": 0}, {"segment_bytes": 1 << 32}, {"snapshots_kept": 0}]
    for wrong in wrongs:
        said = f"StorageSettings.{next(iter(wrong))} = .*: (must be a whole number|at most .* is allowed)"
        with pytest.raises(ConfigError, match=said):
            StorageSettings(**wrong)


# -- cutting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment_bytes", [1, 150, 400, 1 << 20])
def test_truncation_to_every_zxid(segment_bytes: int) -> None:
    """Payloads contain all kinds of bytes: a cut must not depend on its content."""
    settings = StorageSettings(segment_bytes=segment_bytes, preallocate=False)
    disk, storage = begun(settings, epoch=4)
    kinds = [b"", b"\0", b"\xff", bytes(90), b"\xff" * 90, b"\xb2\xe7", b"\xed", bytes(range(256))]
    batches = []
    first = z("1/1")
    for number in range(12):
        chosen = kinds[number % 8 :] + kinds[: number % 5]
        batches.append(append(f"{first >> 32}/{first & 0xFFFFFFFF}", *chosen))
        first = make((first >> 32) + 1, 1) if number % 5 == 4 else Zxid(first + len(chosen))
    storage.perform(batches)
    history = entries_of(write.batch for write in batches)
    for zxid in [NOTHING, *(zxid for zxid, _ in history)]:
        copy = disk.clone()
        storage, _ = Storage.open(copy, settings)
        storage.perform([Truncate(0, zxid)])
        left = [entry for entry in history if entry[0] <= zxid]
        assert (storage.last, entries_of(storage.read_log(NOTHING, zxid))) == (zxid, left)
        storage.perform([append("4/1", b"further")])
        storage, recovered = reopened(copy, settings)
        assert entries_of(recovered.batches) == [*left, (z("4/1"), b"further")]
        # and once more, over the record that was shortened
        if zxid > z("1/2"):
            storage.perform([Truncate(0, z("1/2"))])
            assert entries_of(reopened(copy, settings)[1].batches) == history[:2]


# -- snapshots and purging -----------------------------------------------------------------------------------


def test_a_local_snapshot_is_written_beside_the_log() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a"), append("1/2", b"b")])
    writer = storage.snapshot_writer(z("1/2"), 77)
    writer.write(b"one")
    storage.perform([append("1/3", b"c")])
    writer.write(b"")
    writer.write(b"x" * 600_000)
    assert disk.names() == ("epochs", "log.100000001", "log.100000003", "snapshot.100000002.tmp")
    writer.finish()
    storage.purge()
    assert storage.newest_snapshot == z("1/2")
    with pytest.raises(LocalProtocolError, match="finished or aborted"):
        writer.write(b"more")
    storage, recovered = reopened(disk)
    assert (recovered.snapshot, recovered.digest) == (z("1/2"), 77)
    assert recovered.batches == (batch("1/3", b"c"),)
    assert list(storage.read_snapshot(z("1/2"))) == [b"one", b"", b"x" * 600_000]


@pytest.mark.parametrize("keep", [1, 3])
def test_a_local_snapshot_that_a_received_one_has_overtaken_is_not_kept(keep: int) -> None:
    """The log begins after the received snapshot, so the local one has no continuation."""
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    writer = storage.snapshot_writer(z("1/1"), 7)
    storage.perform(snapshot_writes("1/5", 8, b"state"))
    storage.perform([append("1/6", b"f")])
    writer.finish()
    storage.purge(keep)
    assert "snapshot.100000001" not in disk.names()
    assert storage.newest_snapshot == z("1/5")
    _, recovered = reopened(disk)
    assert (recovered.snapshot, recovered.batches) == (z("1/5"), (batch("1/6", b"f"),))


def test_damaged_log_file_after_the_end_of_the_history_is_deleted_with_a_note() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    disk.put("log.200000001", b"damaged")
    storage, recovered = reopened(disk)
    assert (recovered.voting, recovered.batches) == (True, (batch("1/1", b"a"),))
    assert disk.names() == ("epochs", "log.100000001")
    assert [note for note in storage.notes if note.startswith("log.200000001: ") and "recovery deletes it" in note]


def test_failed_snapshot_changes_nothing() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    writer = storage.snapshot_writer(z("1/1"), 0)
    writer.write(b"x" * 100)
    disk.fail("sync")
    with pytest.raises(StorageError):
        writer.finish()
    writer.abort()
    assert disk.names() == ("epochs", "log.100000001")
    storage.perform([append("1/2", b"b")])
    assert len(reopened(disk)[1].batches) == 2


def test_snapshot_beyond_the_durable_log_is_refused() -> None:
    _disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    with pytest.raises(LocalProtocolError, match="at 1/2: it must be between 0/0"):
        storage.snapshot_writer(z("1/2"), 0)


def test_a_snapshot_inside_a_batch() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a", b"b", b"c")])
    writer = storage.snapshot_writer(z("1/2"), 0)
    writer.finish()
    _, recovered = reopened(disk)
    assert recovered.batches == (batch("1/3", b"c"),)
    assert recovered.epoch_ends == (z("1/2"),)


def test_purge_keeps_the_log_of_a_kept_snapshot() -> None:
    disk, storage = begun(TINY)
    starts = []
    for number in range(1, 41):
        storage.perform([append(f"1/{number}", b"x" * 100)])
        if number % 8 == 0:
            writer = storage.snapshot_writer(make(1, number), number)
            writer.write(b"state")
            writer.finish()
            starts.append(storage.purge(3))
            assert storage.log_start == starts[-1]
    assert starts[:2] == [NOTHING, NOTHING], "fewer snapshots than are to be kept"
    assert starts == sorted(starts)
    assert [name for name in disk.names() if name.startswith("snapshot.")] == [
        f"snapshot.{make(1, number):x}" for number in (24, 32, 40)
    ]
    assert NOTHING < starts[-1] <= z("1/24")
    assert [zxid for zxid, _ in entries_of(storage.read_log(z("1/24"), z("1/40")))] == [
        make(1, number) for number in range(25, 41)
    ]
    # Two of the three rot: the third and the log behind it are enough.
    disk.flip(f"snapshot.{z('1/40'):x}", 20)
    disk.flip(f"snapshot.{z('1/32'):x}", 20)
    _, recovered = reopened(disk, TINY)
    assert (recovered.voting, recovered.snapshot) == (True, z("1/24"))
    assert len(recovered.batches) == 16


def test_memory_does_not_grow_with_the_log() -> None:
    disk, storage = begun(StorageSettings(segment_bytes=20_000, preallocate=False))
    for number in range(1, 2001):
        storage.perform([append(f"1/{number}", b"x" * 100)])
        if number % 200 == 0:
            storage.snapshot_writer(make(1, number), 0).finish()
            storage.purge(1)
    assert disk.used() < 80_000
    assert len(storage._log.segments) < 5


def test_nothing_of_a_damaged_snapshot_is_handed_out() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a")])
    writer = storage.snapshot_writer(z("1/1"), 0)
    for number in range(10):
        writer.write(b"%d" % number * 100)
    writer.finish()
    disk.flip("snapshot.100000001", len(disk.get("snapshot.100000001")) - 60)
    with pytest.raises(DamagedError, match=r"snapshot.100000001: offset \d+: the checksum is wrong"):
        next(iter(storage.read_snapshot(z("1/1"))))


# -- a new file that was not used ------------------------------------------------------------------------


def test_a_file_made_for_an_epoch_that_never_began_is_not_used_for_an_older_one() -> None:
    """Files follow each other by name. Transactions of epoch 1 in a file named after epoch 2 would be out of order."""
    for at in range(20):
        disk = MemoryDisk()
        storage, _ = Storage.open(disk, TINY)
        storage.perform([epochs(2, 1), append("1/1", b"a" * 400)])
        disk.crash_at(disk.changes + at)
        try:
            storage.perform([append("2/1", b"b" * 400)])
            break
        except Crash:
            storage, recovered = reopened(disk, TINY)
        assert recovered.batches == (batch("1/1", b"a" * 400),)
        expected = [(z("1/1"), b"a" * 400)]
        for number in range(2, 6):  # another leader's history goes on in epoch 1
            storage.perform([append(f"1/{number}", b"c" * 400)])
            expected.append((make(1, number), b"c" * 400))
        storage, recovered = reopened(disk, TINY)
        assert recovered.damage == ()
        assert entries_of(recovered.batches) == expected
    assert at > 5


# -- reading the log ---------------------------------------------------------------------------------------


def far_behind(settings: StorageSettings = TINY) -> tuple[MemoryDisk, Storage]:
    disk, storage = begun(settings, epoch=3)
    storage.perform([append(f"1/{number}", b"x" * 90, b"y") for number in range(1, 20, 2)])
    storage.perform([append(f"3/{number}", b"z" * 90) for number in range(1, 10)])
    return disk, storage


def test_every_piece_of_the_log_can_be_read() -> None:
    _disk, storage = far_behind()
    zxids = [NOTHING, *(make(1, number) for number in range(1, 21)), *(make(3, number) for number in range(1, 10))]
    for low, after in enumerate(zxids):
        for high in range(low, len(zxids)):
            found = entries_of(storage.read_log(after, zxids[high]))
            assert [zxid for zxid, _ in found] == zxids[low + 1 : high + 1]


def test_reading_outside_the_log_is_refused() -> None:
    _disk, storage = far_behind()
    for after, until in [("1/3", "3/10"), ("3/4", "3/3")]:
        with pytest.raises(LocalProtocolError, match="is not in it"):
            storage.read_log(z(after), z(until))
    with pytest.raises(LocalProtocolError, match="1/33 is not in this history"):
        list(storage.read_log(z("1/33"), z("3/2")))


def test_reading_a_purged_part_raises_purged() -> None:
    _disk, storage = far_behind()
    ahead = storage.read_log(NOTHING, z("3/9"))
    begun_before = storage.read_log(NOTHING, z("3/9"))
    first = next(begun_before)
    storage.snapshot_writer(z("3/8"), 0).finish()
    storage.purge(1)
    with pytest.raises(Purged, match="lies before that"):
        storage.read_log(NOTHING, z("3/9"))
    with pytest.raises(Purged, match="was purged while it was being read"):
        list(ahead)
    with pytest.raises(Purged):
        list(begun_before)
    assert first == batch("1/1", b"x" * 90, b"y")


def test_reading_a_truncated_part_raises_purged() -> None:
    disk, storage = far_behind(ROOMY)
    reading = storage.read_log(NOTHING, z("3/9"))
    storage.perform([Truncate(0, z("3/4"))])
    with pytest.raises(Purged, match="3/9 was cut off"):
        list(reading)
    reading = storage.read_log(NOTHING, z("3/4"))
    storage.perform(snapshot_writes("3/2", 0, b"state"))
    with pytest.raises(Purged):
        list(reading)
    assert disk.names() == ("epochs", f"snapshot.{z('3/2'):x}")


def test_appends_go_on_while_the_log_is_read() -> None:
    _disk, storage = far_behind()

    def reading() -> Iterator[Zxid]:
        for each in storage.read_log(NOTHING, z("3/9")):
            yield each.last

    seen = []
    for number, zxid in enumerate(reading()):
        storage.perform([append(f"3/{10 + number}", b"w" * 300)])
        seen.append(zxid)
    assert seen == [*(make(1, number) for number in range(2, 21, 2)), *(make(3, number) for number in range(1, 10))]


def test_rot_in_the_log_that_is_read_is_reported_with_its_place() -> None:
    disk, storage = far_behind(ROOMY)
    disk.flip("log.100000001", 300)
    with pytest.raises(DamagedError, match=r"log.100000001: offset \d+: the checksum of the record at 1/3 is wrong"):
        list(storage.read_log(NOTHING, z("3/9")))
    storage.perform([append("3/10", b"the log goes on")])


def test_read_error_is_reported_as_an_io_error() -> None:
    disk, storage = far_behind()
    disk.fail("read")
    with pytest.raises(StorageError, match="cannot read log"):
        list(storage.read_log(NOTHING, z("3/9")))


# -- snapshots from the leader -------------------------------------------------------------------------------


def test_an_installed_snapshot_is_all_there_is() -> None:
    disk, storage = far_behind()
    storage.snapshot_writer(z("1/7"), 0).finish()
    storage.perform([*snapshot_writes("3/2", 5, b"the", b"state"), append("3/3", b"a")])
    assert (storage.newest_snapshot, storage.log_start, storage.last) == (z("3/2"), z("3/2"), z("3/3"))
    assert list(storage.read_snapshot(z("3/2"))) == [b"the", b"state"]
    storage, recovered = reopened(disk, TINY)
    assert recovered.batches == (batch("3/3", b"a"),)
    assert (recovered.snapshot, recovered.log_start, recovered.digest) == (z("3/2"), z("3/2"), 5)
    assert disk.names() == ("epochs", f"log.{z('3/3'):x}", f"snapshot.{z('3/2'):x}")


def test_snapshots_without_a_digest_are_recovered_without_one() -> None:
    """A leader of ZooKeeper sends none, so the snapshots that follow have none either."""
    disk, storage = begun()
    storage.perform([epochs(3, 3), *snapshot_writes("3/2", None, b"state"), append("3/3", b"x")])
    storage, recovered = reopened(disk)
    assert (recovered.snapshot, recovered.digest) == (z("3/2"), None)
    writer = storage.snapshot_writer(z("3/3"), None)
    writer.write(b"more")
    writer.finish()
    storage, recovered = reopened(disk)
    assert (recovered.snapshot, recovered.digest, recovered.damage) == (z("3/3"), None, ())
    assert list(storage.read_snapshot(z("3/3"))) == [b"more"]


def test_the_end_of_a_snapshot_with_a_digest_keeps_its_form() -> None:
    """Snapshots of earlier versions have this form: kind 2, one chunk, digest 5."""
    disk, storage = begun()
    storage.perform([epochs(3, 3), *snapshot_writes("3/2", 5, b"state")])
    data = disk.get(f"snapshot.{z('3/2'):x}")
    assert data[-13:-4] == b"\x02" + (1).to_bytes(4, "big") + (5).to_bytes(4, "big")


def test_a_second_snapshot_replaces_one_that_was_arriving() -> None:
    disk, storage = far_behind()
    storage.perform([BeginSnapshot(0, z("3/2")), SnapshotChunk(0, b"old")])
    storage.perform(snapshot_writes("3/4", 5, b"new"))
    storage, _ = reopened(disk, TINY)
    assert list(storage.read_snapshot(z("3/4"))) == [b"new"]


def test_a_local_snapshot_that_ends_after_another_history_was_installed_changes_nothing() -> None:
    disk, storage = far_behind()
    late = storage.snapshot_writer(z("1/5"), 0)
    storage.perform([*snapshot_writes("3/2", 5, b"state"), append("3/3", b"a")])
    late.finish()
    storage.purge()
    assert storage.newest_snapshot == z("3/2")
    _, recovered = reopened(disk, TINY)
    assert (recovered.snapshot, recovered.voting) == (z("3/2"), True)


def install_until(what: str, at_zxid: str) -> MemoryDisk:
    """A server that died in the middle of an install, right before this call."""
    for at in range(100):
        disk, storage = far_behind()
        disk.crash_at(disk.changes + at)
        try:
            storage.perform(snapshot_writes(at_zxid, 5, b"state"))
        except Crash as crash:
            if what in str(crash):
                return disk
    raise AssertionError(f"no call {what!r} in an install")


def test_clearing_up_after_an_install_may_be_interrupted_twice() -> None:
    """The epochs record has the new history, and an old file fits right after the snapshot.

    The file holds transactions that the leader lacks. They must not return.
    """
    old, storage = far_behind()
    fitting = storage._log.segments[-1]
    boundary = fitting.previous
    assert z("3/1") < boundary < storage.last
    installed = f"3/{boundary - z('3/1') + 1}"
    died = install_until("rename install", installed)
    died.crash()
    died.put(fitting.name, old.get(fitting.name))
    interrupted = 0
    for seed in range(400):
        disk = died.clone()
        disk.crash_at(disk.changes + seed % 5)
        try:
            storage, recovered = Storage.open(disk, TINY)
        except Crash:
            interrupted += 1
            disk.crash(Random(seed).randrange)
            storage, recovered = Storage.open(disk, TINY)
        assert (recovered.snapshot, recovered.batches, recovered.voting) == (z(installed), (), True)
        assert disk.names() == ("epochs", f"snapshot.{z(installed):x}")
        assert storage.last == z(installed)
    assert interrupted == 400


# -- the end -------------------------------------------------------------------------------------------------


def test_closed_log_records_its_end() -> None:
    disk, storage = begun()
    storage.perform([append("1/1", b"a"), append("1/2", bytes(2000))])
    storage.close()
    storage.close()
    with pytest.raises(StorageError, match="the storage is closed"):
        storage.perform([])
    disk.flip("log.100000001", 1500)
    _, recovered = reopened(disk)
    assert not recovered.voting
    assert "reached 1/2 before" in recovered.damage[0]


def test_committed_zxid_survives_a_restart() -> None:
    disk = MemoryDisk()
    storage, recovered = Storage.open(disk, ROOMY)
    storage.perform([epochs(3, 3), append("3/1", b"a"), append("3/2", b"b"), append("3/3", b"c")])
    storage.know_committed(z("3/2"))
    storage.close()
    storage, recovered = reopened(disk, ROOMY)
    assert recovered.committed == z("3/2")
    storage.perform([*snapshot_writes("3/1", 1, b"state"), epochs(3, 3)])
    _, recovered = reopened(disk, ROOMY)
    assert recovered.committed == z("3/1"), "of a history that took the place of the old one"
