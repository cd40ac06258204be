"""A crash at each call to the disk, in each way: durable data is present afterwards.

One workload contains all kinds of writes. The test crashes before each call that changes
something, with many fates of unsynced bytes and names. (A crash after
a call is one before the next.) The recovered state must be one that the model allows. Recovery must
find it again, also after a crash of its own, and the server must be able to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random

import pytest

from tests.unit.storage.model import (
    PREALLOCATED,
    TINY,
    Model,
    Step,
    append,
    check,
    epochs,
    local_snapshot,
    purging,
    run_steps,
    snapshot_writes,
    writing,
    z,
)
from zab.core.batch import pack
from zab.core.errors import StorageError
from zab.core.ready import AbortSnapshot, Append, BeginSnapshot, SnapshotChunk, Truncate
from zab.core.zxid import epoch_of, make
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.storage import Storage, StorageSettings

ZEROS = bytes(1500)
"""A payload with whole sectors of zeros in it: the hardest to tell from one that was never written."""

pytestmark = pytest.mark.slow

WORKLOAD: Sequence[Step] = (
    writing(epochs(1, 0)),
    writing(epochs(1, 1)),
    writing(append("1/1", b"a"), append("1/2", b"b", b"c")),
    writing(append("1/4", b"d" * 700), append("1/5", ZEROS), append("1/6", b"e")),
    writing(append("1/7", b"f", b"g", b"h")),
    writing(Truncate(0, z("1/8"))),
    writing(append("1/9", b"i"), epochs(2, 1), Truncate(0, z("1/9")), append("2/1", b"j"), epochs(2, 2)),
    local_snapshot("1/8", b"state", b"", b"of 1/8" * 100),
    purging(1),
    *(writing(append(f"2/{number}", bytes([number]) * 200)) for number in range(2, 6)),
    local_snapshot("2/4", b"state of 2/4"),
    purging(2),
    writing(append("2/6", b"k" * 300), append("2/7", b"l" * 300), append("2/8", b"m" * 600)),
    writing(Truncate(0, z("2/5"))),
    writing(BeginSnapshot(0, z("2/9")), SnapshotChunk(0, b"never to be seen"), AbortSnapshot(0)),
    writing(append("2/6", b"n")),
    writing(epochs(3, 2), *snapshot_writes("2/5", 5, b"lower than", b" the tail of the log"), append("2/6", b"o")),
    writing(epochs(3, 3), append("3/1", b"p", b"q")),
    writing(epochs(4, 3), *snapshot_writes("3/20", 6, b"far ahead")),
    writing(epochs(4, 4)),
    writing(append("4/1", b"never" * 100), append("4/2", b"decided" * 100)),
    writing(Truncate(0, z("3/20"))),
    writing(append("4/1", b"r"), append("4/2", b"s")),
    local_snapshot("4/1", b"state of 4/1"),
    local_snapshot("4/2", b"state of 4/2"),
    writing(append("4/3", b"t" * 500)),
    purging(2),
    writing(epochs(5, 4), Truncate(0, z("4/2"))),
    writing(append("5/1", b"u"), epochs(5, 5)),
    writing(epochs(6, 5, whole=False)),
    writing(*snapshot_writes("5/1", 7, b"healed"), append("5/2", b"v")),
    writing(epochs(6, 6, whole=True)),
    writing(append("6/1", b"w")),
)

Ending = Callable[[MemoryDisk], None]


def torn(seed: int) -> Ending:
    return lambda disk: disk.crash(Random(seed).randrange)


ENDINGS: dict[str, Ending] = {
    "all is lost": lambda disk: disk.crash(),
    "all is kept": lambda disk: disk.crash(keep=True),
    "killed, not crashed": lambda disk: disk.kill(),
    **{f"torn by {seed}": torn(seed) for seed in range(8)},
}


def crashes(settings: StorageSettings, steps: Sequence[Step]) -> Iterator[tuple[str, MemoryDisk, Sequence[Model]]]:
    """Yield the disk before each of its changes, with the allowed states."""
    at = 0
    while True:
        disk = MemoryDisk()
        disk.crash_at(at)
        reached: list[Sequence[Model]] = []
        try:
            run_steps(disk, settings, steps, reached)
        except Crash as crash:
            yield str(crash), disk, reached[-1]
        else:
            return
        at += 1


@cache
def crashes_of_workload(settings: StorageSettings) -> list[tuple[str, MemoryDisk, Sequence[Model]]]:
    """Run the workload once for all endings. A test changes clones of the disks only."""
    return list(crashes(settings, WORKLOAD))


def failure_of(disk: MemoryDisk, reached: list[Sequence[Model]]) -> str | None:
    try:
        run_steps(disk, TINY, WORKLOAD, reached)
    except StorageError as error:
        return str(error)
    return None


def goes_on(storage: Storage, model: Model) -> None:
    """Check that the storage can promise, log and recover."""
    epoch = max(model.accepted, epoch_of(model.last)) + 1
    zxid = make(epoch, 1)
    writes = (epochs(epoch, epoch), Append(0, pack(zxid, [b"further"])))
    storage.perform(writes)


@pytest.mark.parametrize("settings", [TINY, PREALLOCATED], ids=["tiny", "preallocated"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_crash_leaves_a_legal_state(settings: StorageSettings, ending: str) -> None:
    count = 0
    for where, crashed, legal in crashes_of_workload(settings):
        count += 1
        disk = crashed.clone()
        ENDINGS[ending](disk)
        try:
            storage, recovered = Storage.open(disk, settings)
            model = check(recovered, storage, legal)
            disk.crash()  # what recovery found is durable now, whatever it was before
            storage, again = Storage.open(disk, settings)
            assert again == recovered
            if not model.whole:
                continue
            goes_on(storage, model)
            disk.crash()
            storage, further = Storage.open(disk, settings)
            assert further.batches[:-1] == recovered.batches
            assert further.batches[-1].payloads() == [b"further"]
        except Exception as error:
            error.add_note(f"the server died {where}; un-synced: {ending}")
            raise
    assert count > 200


def test_recovery_may_die_at_each_of_its_calls_too() -> None:
    for index, (where, crashed, legal) in enumerate(crashes(TINY, WORKLOAD)):
        crashed.crash(Random(index).randrange)
        expected: object = None
        at = 0
        while True:
            disk = crashed.clone()
            disk.crash_at(disk.changes + at)
            try:
                storage, recovered = Storage.open(disk, TINY)
            except Crash:
                disk.crash(Random(at).randrange)
                storage, recovered = Storage.open(disk, TINY)
                finished = False
            else:
                finished = True
            try:
                check(recovered, storage, legal)
                if expected is None:
                    expected = recovered
                assert recovered == expected
            except AssertionError as error:
                error.add_note(f"the server died {where}, then its recovery at call {at}")
                raise
            if finished:
                break
            at += 1


def test_workload_fills_segments_and_matches_the_model() -> None:
    disk = MemoryDisk()
    reached: list[Sequence[Model]] = []
    storage = run_steps(disk, TINY, WORKLOAD, reached)
    disk.crash()
    storage, recovered = Storage.open(disk, TINY)
    assert check(recovered, storage, reached[-1]).last == z("6/1")
    assert disk.counts["rename"] > 10
    assert disk.counts["delete"] > 5


def test_a_sync_that_fails_is_never_followed_by_a_promise() -> None:
    """Fail each sync of the workload in turn: the storage stops, and a crash keeps the earlier durable data."""
    at = 0
    while True:
        disk = MemoryDisk()
        reached: list[Sequence[Model]] = []
        disk.fail("sync", at)
        failure = failure_of(disk, reached)
        if failure is None:
            break
        assert "cannot sync" in failure
        for ending in ("all is lost", "killed, not crashed", "torn by 3"):
            copy = disk.clone()
            ENDINGS[ending](copy)
            storage, recovered = Storage.open(copy, TINY)
            model = check(recovered, storage, reached[-1])
            copy.crash()  # the sync had been told a lie: what was recovered must have been written anew
            storage, again = Storage.open(copy, TINY)
            check(again, storage, [model])
        at += 1
    assert at > 40


def test_every_failing_call_stops_the_storage() -> None:
    for kind in ("write", "create", "rename", "delete", "sync_dir", "allocate"):
        at = 0
        while True:
            disk = MemoryDisk()
            reached: list[Sequence[Model]] = []
            disk.fail(kind, at)
            failure = failure_of(disk, reached)
            if failure is None:
                break
            assert f"cannot {kind}" in failure
            disk.crash()
            storage, recovered = Storage.open(disk, TINY)
            check(recovered, storage, reached[-1])
            at += 1
        assert at > 3, kind


def test_full_disk_of_every_size_keeps_durable_data() -> None:
    full = 0
    for capacity in range(500, 30_000, 250):
        disk = MemoryDisk()
        disk.capacity = capacity
        reached: list[Sequence[Model]] = []
        failure = failure_of(disk, reached)
        assert failure is None or "No space left on device" in failure
        full += failure is not None
        disk.capacity = None
        disk.crash(Random(capacity).randrange)
        storage, recovered = Storage.open(disk, TINY)
        check(recovered, storage, reached[-1])
    assert full > 50
