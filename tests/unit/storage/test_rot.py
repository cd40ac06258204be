"""Disks rot: each byte of each file is changed, each file is cut at each length, each file is lost.

Whatever is done to a disk at rest, the server must notice it and not vote, or come up with exactly the history
that it had. The one exception is documented in `zab.storage.torn_tail`, and only a server that did not close its
log can meet it: the very last group of records may be taken for torn. Never is there a different history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from zlib import crc32

import pytest
from attrs import evolve

from tests.unit.storage.model import (
    PREALLOCATED,
    TINY,
    Model,
    Step,
    append,
    batch,
    check,
    epochs,
    local_snapshot,
    purging,
    run_steps,
    snapshot_writes,
    writing,
    z,
)
from zab.core.batch import Batch
from zab.core.errors import DamagedError, StorageError
from zab.core.ready import Append
from zab.core.zxid import NOTHING
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.storage import Storage, StorageSettings

pytestmark = pytest.mark.slow

STEPS: Sequence[Step] = (
    writing(epochs(1, 1)),
    writing(append("1/1", b"a"), append("1/2", b"b" * 40, bytes(30))),
    writing(append("1/4", b"\x00\xff" * 100)),
    local_snapshot("1/4", b"state of 1/4"),
    writing(append("1/5", b"c" * 200), append("1/6", b"d" * 200)),
    writing(append("1/7", b"e" * 200)),
    writing(epochs(2, 2)),
    local_snapshot("1/6", b"state of", b" 1/6"),
    writing(append("2/1", b"f")),
    purging(2),
    writing(append("2/2", b"g" * 20), append("2/3", b"\x00\xff" * 300, b"h" * 30)),
)
WITH_ZEROS: Sequence[Step] = (*STEPS[:-1], writing(append("2/2", bytes(1200))))
BEFORE_LAST_GROUP = z("2/1")

LAYOUTS = {"tiny": TINY, "preallocated": PREALLOCATED, "one file": StorageSettings(preallocate=False)}
layouts = pytest.mark.parametrize("settings", LAYOUTS.values(), ids=LAYOUTS)


class Judge:
    """Opens changed disks, and counts the results."""

    def __init__(self, settings: StorageSettings, *, closed: bool, steps: Sequence[Step] = STEPS) -> None:
        self.disk = MemoryDisk()
        reached: list[Sequence[Model]] = []
        storage = run_steps(self.disk, settings, steps, reached)
        if closed:
            storage.close()
        self.disk.crash()
        self.settings = settings
        storage, recovered = Storage.open(self.disk.clone(), settings)
        self.model = check(recovered, storage, reached[-1])
        self.noticed = self.harmless = self.cut = 0

    def judge(self, disk: MemoryDisk, what: str, *, twice: bool = True) -> None:
        try:
            storage, recovered = Storage.open(disk, self.settings)
            if recovered.voting:
                lost = self.model.last - storage.last
                assert storage.last >= BEFORE_LAST_GROUP, "durable records were cut"
                newest = storage.newest_snapshot or NOTHING
                model = evolve(
                    self.model,
                    log=self.model.log[: len(self.model.log) - lost],
                    snapshots=tuple(each for each in self.model.snapshots if each[0] <= newest),
                )
                check(recovered, storage, [model])
                self.cut += lost > 0
                self.harmless += lost == 0
            else:
                assert recovered.damage
                assert recovered.batches == ()
                self.noticed += 1
            if twice:
                disk.crash()
                assert Storage.open(disk, self.settings)[1] == recovered, "the second recovery found something else"
        except Exception as error:
            error.add_note(what)
            raise


@layouts
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_every_byte_that_flips_is_noticed_or_harmless(settings: StorageSettings, closed: bool) -> None:
    judge = Judge(settings, closed=closed)
    for name in judge.disk.names():
        content = judge.disk.get(name)
        for offset in range(len(content)):
            if name == "epochs" and not content[offset] and offset % 50:
                continue  # nearly all of it is padding
            for mask in (0x01, content[offset] or 0x80):  # the second makes it a zero
                disk = judge.disk.clone()
                disk.flip(name, offset, mask)
                what = f"{name}: byte {offset} of {len(content)} changed by {mask:#x}"
                judge.judge(disk, what, twice=mask == 0x01)
    assert judge.noticed > 100
    if closed:
        assert not judge.cut


@layouts
def test_damage_mistaken_for_a_torn_tail_is_limited_to_the_last_group(settings: StorageSettings) -> None:
    for steps, may_be_cut in ((STEPS, False), (WITH_ZEROS, True)):
        judge = Judge(settings, closed=False, steps=steps)
        name = _newest_log(judge.disk)
        for offset in range(len(judge.disk.get(name))):
            disk = judge.disk.clone()
            disk.flip(name, offset, 0x10)
            judge.judge(disk, f"{name}: byte {offset}", twice=False)
        assert bool(judge.cut) == may_be_cut


def test_zeros_where_an_earlier_group_was_are_no_torn_tail() -> None:
    """The zeros look like a write that never arrived, but a later record proves that it did."""
    disk = MemoryDisk()
    storage, _ = Storage.open(disk, LAYOUTS["one file"])
    storage.perform([epochs(1, 1)])
    ends = []
    for number in range(1, 6):
        storage.perform([append(f"1/{number}", b"x" * 700)])
        ends.append(len(disk.get("log.100000001")))
    disk.crash()
    for start, end in pairwise(ends[:-1]):
        for low in range(start, end, 97):
            for high in {end, min(end, low + 512)}:
                rotten = disk.clone()
                for offset in range(low, high):
                    rotten.flip("log.100000001", offset, rotten.get("log.100000001")[offset])
                _, recovered = Storage.open(rotten, LAYOUTS["one file"])
                assert not recovered.voting, f"zeros from {low} to {high}"
                assert "it was durable when the record at" in recovered.damage[0]


@layouts
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_every_length_to_which_a_file_is_cut(settings: StorageSettings, closed: bool) -> None:
    judge = Judge(settings, closed=closed)
    for name in judge.disk.names():
        size = len(judge.disk.get(name))
        if not closed and not settings.preallocate and name == _newest_log(judge.disk):
            continue  # cut exactly behind a record, such a file is what it once was
        for length in range(0, size, 37 if name == "epochs" else 1):
            disk = judge.disk.clone()
            disk.cut(name, length)
            judge.judge(disk, f"{name}: cut to {length} of {size} bytes", twice=length % 3 == 0)
    assert judge.noticed > 100
    if closed or settings.preallocate:
        assert not judge.cut


@layouts
def test_torn_log_never_ends_before_the_epochs_record(settings: StorageSettings) -> None:
    judge = Judge(settings, closed=False)
    name = _newest_log(judge.disk)
    for length in range(len(judge.disk.get(name))):
        disk = judge.disk.clone()
        disk.cut(name, length)
        storage, recovered = Storage.open(disk, settings)
        if recovered.voting:
            assert storage.last >= z("2/1"), f"cut to {length}"
            assert recovered.batches == tuple(each for each in _batches(judge) if each.last <= storage.last)


@layouts
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_every_file_that_is_lost_is_missed(settings: StorageSettings, closed: bool) -> None:
    judge = Judge(settings, closed=closed)
    for name in judge.disk.names():
        disk = judge.disk.clone()
        disk.lose(name)
        judge.judge(disk, f"{name} is lost")
    assert not judge.cut
    assert judge.noticed >= 2


@layouts
def test_every_read_of_recovery_that_fails_is_damage_or_harmless(settings: StorageSettings) -> None:
    """An unreadable sector is damage like any other: the server heals from the others and does not stop."""
    judge = Judge(settings, closed=False)
    Storage.open(counting := judge.disk.clone(), settings)
    for nth in range(counting.counts["read"] - judge.disk.counts.get("read", 0)):
        disk = judge.disk.clone()
        disk.fail("read", nth)
        judge.judge(disk, f"read {nth} fails", twice=False)
    assert judge.noticed
    assert not judge.cut


def test_a_newer_format_is_no_damage() -> None:
    """An older version of the program must not set the files of a newer one aside."""
    judge = Judge(TINY, closed=True)
    for name, end in [(_newest_log(judge.disk), 34), ("snapshot.100000006", 18)]:
        disk = judge.disk.clone()
        data = bytearray(disk.get(name))
        data[8:10] = b"\0\2"
        data[end : end + 4] = crc32(data[:end]).to_bytes(4, "big")
        disk.put(name, bytes(data))
        with pytest.raises(StorageError, match=f"{name} is of format 2, and this program knows format 1 only"):
            Storage.open(disk, TINY)


def test_all_snapshots_lost_is_no_empty_beginning() -> None:
    judge = Judge(TINY, closed=True)
    disk = judge.disk.clone()
    for name in disk.names():
        if name.startswith("snapshot."):
            disk.lose(name)
    _storage, recovered = Storage.open(disk, TINY)
    assert not recovered.voting
    assert "begins after" in recovered.damage[0]


def test_everything_lost_but_the_epochs_is_no_empty_beginning() -> None:
    judge = Judge(TINY, closed=True)
    disk = judge.disk.clone()
    for name in disk.names():
        if name != "epochs":
            disk.lose(name)
    _storage, recovered = Storage.open(disk, TINY)
    assert not recovered.voting
    assert "missing" in recovered.damage[0]


def test_a_lost_epochs_record_means_forgotten_promises() -> None:
    judge = Judge(TINY, closed=True)
    disk = judge.disk.clone()
    disk.lose("epochs")
    _storage, recovered = Storage.open(disk, TINY)
    assert (recovered.voting, recovered.forgotten, recovered.accepted) == (False, True, 0)
    assert "epochs: missing" in recovered.damage[0]


def test_one_copy_of_the_epochs_is_enough_and_is_made_two_again() -> None:
    judge = Judge(TINY, closed=True)
    for offset in (10, 4106):
        disk = judge.disk.clone()
        disk.flip("epochs", offset)
        storage, recovered = Storage.open(disk, TINY)
        assert recovered.voting
        assert any("the other copy is sound" in note for note in storage.notes)
        disk.crash()
        assert disk.get("epochs") == judge.disk.get("epochs")


def test_both_copies_of_the_epochs_damaged() -> None:
    judge = Judge(TINY, closed=True)
    disk = judge.disk.clone()
    disk.flip("epochs", 10)
    disk.flip("epochs", 4106)
    _storage, recovered = Storage.open(disk, TINY)
    assert (recovered.voting, recovered.forgotten) == (False, True)
    assert "both copies are damaged" in recovered.damage[0]


def test_a_write_that_lands_beside_its_place_is_noticed_or_changes_nothing() -> None:
    for delta in (-600, -37, -1, 1, 40, 512, 700):
        at = 0
        while True:
            disk = MemoryDisk()
            reached: list[Sequence[Model]] = []
            # Crash there to find the call, then do it again with the write diverted.
            disk.crash_at(at)
            try:
                run_steps(disk, TINY, STEPS, reached)
            except Crash as crash:
                if "write log" not in str(crash):
                    at += 1
                    continue
            else:
                break
            disk = MemoryDisk()
            _divert_at(disk, at, delta)
            reached.clear()
            run_steps(disk, TINY, STEPS, reached).close()
            disk.crash()
            storage, recovered = Storage.open(disk, TINY)
            if recovered.voting:
                newest = storage.newest_snapshot or NOTHING
                snapshots = tuple(each for each in reached[-1][-1].snapshots if each[0] <= newest)
                check(recovered, storage, [evolve(reached[-1][-1], snapshots=snapshots)])
            at += 1
        assert at > 20


def test_a_sync_that_lied_is_noticed_when_an_epoch_was_saved_since() -> None:
    disk = MemoryDisk()
    storage, _ = Storage.open(disk, TINY)
    storage.perform([epochs(1, 1), append("1/1", b"a")])
    disk.lying = True
    storage.perform([append("1/2", b"b")])
    lost = disk.clone()
    lost.lying = False
    lost.crash()
    _storage, recovered = Storage.open(lost, TINY)
    assert recovered.voting  # nothing on the disk tells
    disk.lying = False
    real_sync = disk.counts["sync"]
    disk.lying = True
    storage.perform([append("1/3", b"c")])
    disk.lying = False
    storage.perform([epochs(2, 1)])
    assert disk.counts["sync"] > real_sync
    disk.crash()
    _storage, recovered = Storage.open(disk, TINY)
    assert not recovered.voting
    assert "reached 1/3 before" in recovered.damage[0]


def test_the_newest_snapshot_damaged_and_an_older_one_with_the_log_behind_it() -> None:
    judge = Judge(TINY, closed=True)
    disk = judge.disk.clone()
    disk.flip("snapshot.100000006", 30)
    storage, recovered = Storage.open(disk, TINY)
    assert recovered.voting
    assert recovered.snapshot == storage.newest_snapshot == z("1/4")
    assert any(note.startswith("snapshot.100000006: offset") for note in storage.notes)
    with pytest.raises(DamagedError):
        list(storage.read_snapshot(z("1/6")))
    # It does not count as one of those to keep, and is overwritten when the time comes.
    writer = storage.snapshot_writer(z("1/6"), 6)
    writer.write(b"once more")
    writer.finish()
    storage.purge(1)
    assert storage.newest_snapshot == z("1/6")
    assert list(storage.read_snapshot(z("1/6"))) == [b"once more"]


def test_damage_below_the_newest_snapshot_costs_only_the_log_there() -> None:
    judge = Judge(LAYOUTS["one file"], closed=True)
    disk = judge.disk.clone()
    first = min(name for name in disk.names() if name.startswith("log."))
    disk.flip(first, 85)  # in the body of the first record
    storage, recovered = Storage.open(disk, LAYOUTS["one file"])
    assert recovered.voting
    assert NOTHING < recovered.log_start < recovered.snapshot
    assert any("not needed" in note for note in storage.notes)


def test_next_purge_deletes_a_superfluous_damaged_log() -> None:
    judge = Judge(LAYOUTS["tiny"], closed=True)
    disk = judge.disk.clone()
    first = min(name for name in disk.names() if name.startswith("log."))
    disk.flip(first, 85)
    storage, recovered = Storage.open(disk, LAYOUTS["tiny"])
    assert recovered.voting
    assert first in disk.names(), "as long as nobody clears up"
    storage.purge(1)
    assert first not in disk.names()
    storage.close()
    storage, again = Storage.open(disk, LAYOUTS["tiny"])
    assert again.voting
    assert not storage.rotten
    assert again.batches == recovered.batches


def grown(settings: StorageSettings = LAYOUTS["one file"]) -> tuple[MemoryDisk, Storage, list[int]]:
    """Five transactions in one file, of which the epochs record knows nothing; and where each ends."""
    disk = MemoryDisk()
    storage, _ = Storage.open(disk, settings)
    storage.perform([epochs(1, 1)])
    ends = []
    for number in range(1, 6):
        storage.perform([append(f"1/{number}", b"x" * 50)])
        ends.append(len(disk.get("log.100000001")))
    return disk, storage, ends


@pytest.mark.parametrize("sound", [True, False])
def test_a_log_that_ends_before_a_snapshot_has_lost_something(sound: bool) -> None:
    """Transactions after the snapshot may be lost as well, and may have been acknowledged."""
    disk, storage, ends = grown()
    storage.snapshot_writer(z("1/4"), 0).finish()
    disk.crash()
    disk.cut("log.100000001", ends[2])
    if not sound:
        disk.flip("snapshot.100000004", 20)
    _, recovered = Storage.open(disk, LAYOUTS["one file"])
    assert not recovered.voting
    assert ("before the snapshot at 1/4" if sound else "; and the log ends before it") in str(recovered.damage)


def test_an_old_copy_of_the_epochs_is_noticed_by_a_newer_log() -> None:
    disk, storage, _ = grown()
    old = disk.get("epochs")
    storage.perform([epochs(2, 2), append("2/1", b"a")])
    disk.crash()
    disk.put("epochs", old)
    _, recovered = Storage.open(disk, LAYOUTS["one file"])
    assert not recovered.voting
    assert "only epoch 1 was accepted" in recovered.damage[0]
    assert recovered.forgotten, "what else was promised since, nobody knows"


def test_a_log_of_another_time_in_the_same_place_is_noticed() -> None:
    """One file was copied back from a backup."""
    disk, storage, _ = grown()
    old = disk.get("log.100000001")
    storage.perform([append(f"1/{number}", b"x" * 50) for number in range(6, 30)])
    storage.perform([epochs(2, 2)])
    disk.crash()
    disk.put("log.100000001", old)
    _, recovered = Storage.open(disk, LAYOUTS["one file"])
    assert not recovered.voting
    assert "reached 1/29 before" in recovered.damage[0]


# -- healing -------------------------------------------------------------------------------------------

HEALING: Sequence[Step] = (
    writing(epochs(3, 2, whole=False, forgotten=True)),
    writing(*snapshot_writes("2/2", 22, b"healed", b"state")),
    writing(append("2/3", b"tail")),
    writing(epochs(3, 3, forgotten=True)),
    writing(append("3/1", b"new")),
)


def two_installs(disk: MemoryDisk) -> None:
    disk.put("install.200000005", b"")
    disk.put("install.200000006", b"")


DAMAGE: dict[str, Callable[[MemoryDisk], object]] = {
    "a log": lambda disk: disk.flip(min(name for name in disk.names() if name.startswith("log.2")), 60),
    "a lost log": lambda disk: disk.lose(_newest_log(disk)),
    "the epochs": lambda disk: disk.put("epochs", b"x" * 9000),
    "lost epochs": lambda disk: disk.lose("epochs"),
    "an install": lambda disk: disk.put("install.200000005", b"half of a snapshot"),
    "two installs": two_installs,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_server_is_healed_whatever_interrupts_it(damage: str) -> None:
    judge = Judge(TINY, closed=False)
    at = 0
    votes = 0
    while True:
        disk = judge.disk.clone()
        DAMAGE[damage](disk)
        storage, recovered = Storage.open(disk, TINY)
        assert not recovered.voting
        assert all("does not vote" in line for line in recovered.damage)
        model = Model(recovered.accepted, recovered.current, recovered.ensemble, False, recovered.forgotten)
        legal: Sequence[Model] = [model]
        disk.crash_at(disk.changes + at)
        try:
            for _name, act, states in HEALING:
                legal = states(legal[-1])
                act(storage)
                legal = [legal[-1]]
            finished = True
        except Crash as crash:
            finished = False
            where = str(crash)
        disk.crash()
        try:
            storage, recovered = Storage.open(disk, TINY)
            found = check(recovered, storage, legal)
        except Exception as error:
            error.add_note(f"{damage}; {where}")
            raise
        votes += recovered.voting
        assert found.whole == (found.last == z("3/1") or found.current == 3)
        if finished:
            break
        at += 1
    assert recovered.voting
    assert votes > 1, "the last writes come after the vote is regained"
    assert at > 15
    if damage != "lost epochs":
        assert any(name.startswith("damaged.") for name in disk.names())
        assert any("named damaged.*" in note for note in storage.notes)
        assert not any("1 files" in note for note in storage.notes)


@pytest.mark.parametrize("damage", [name for name in DAMAGE if "epochs" not in name])
def test_the_evidence_is_moved_only_when_the_damage_is_on_record(damage: str) -> None:
    """Half the files set aside could look like a whole history: a crash in between must not make a voter."""
    judge = Judge(TINY, closed=False)
    for at in range(100):
        for seed in range(10):
            disk = judge.disk.clone()
            DAMAGE[damage](disk)
            storage, _ = Storage.open(disk, TINY)
            disk.crash_at(disk.changes + at)
            try:
                storage.perform(snapshot_writes("2/2", 22, b"healed"))
                return
            except Crash:
                disk.crash(Random(seed).randrange)
            _storage, recovered = Storage.open(disk, TINY)
            assert not recovered.voting


def test_a_healing_server_may_not_be_declared_whole_before_its_history_is_replaced() -> None:
    judge = Judge(TINY, closed=True)
    judge.disk.lose(_newest_log(judge.disk))
    for writes in ([epochs(3, 3)], [append("2/4", b"x")], [Append(0, batch("1/1", b"a"))]):
        storage, _ = Storage.open(judge.disk.clone(), TINY)
        with pytest.raises(Exception, match="may be incomplete"):
            storage.perform(writes)
        with pytest.raises(StorageError, match="writes nothing more"):
            storage.perform([])


def _newest_log(disk: MemoryDisk) -> str:
    return max(name for name in disk.names() if name.startswith("log."))


def _batches(judge: Judge) -> tuple[Batch, ...]:
    return Storage.open(judge.disk.clone(), judge.settings)[1].batches


def _divert_at(disk: MemoryDisk, change: int, delta: int) -> None:
    """Let the write that is this change go astray."""
    enter = disk._enter

    def watched(kind: str, name: str) -> None:
        if disk.changes == change:
            disk.divert = delta
        enter(kind, name)

    disk._enter = watched  # type: ignore[method-assign]
