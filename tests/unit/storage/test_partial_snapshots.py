"""A partial snapshot from a broken link: kept, checked, resumed, and never used by itself."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.storage.model import TINY, append, epochs, snapshot_writes, z
from zab.core.errors import LocalProtocolError
from zab.core.messages import SnapHeld
from zab.core.ready import (
    AbortSnapshot,
    BeginSnapshot,
    InstallSnapshot,
    KeepSnapshot,
    Recovered,
    ResumeSnapshot,
    SnapshotChunk,
    Write,
)
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.snapshot_files import PARTIAL
from zab.storage.storage import Storage

CHUNKS = [bytes([number]) * (200 + number) for number in range(10)]
AT, DIGEST = z("1/5"), 77


def opened(disk: MemoryDisk) -> tuple[Storage, Recovered]:
    return Storage.open(disk, TINY)


def a_source(chunks: list[bytes] = CHUNKS, at: str = "1/5") -> tuple[MemoryDisk, Storage]:
    """A leader that has this snapshot on its disk."""
    disk = MemoryDisk()
    storage, _ = opened(disk)
    storage.perform([epochs(1, 1), append("1/1", *(b"%d" % number for number in range(9)))])
    writer = storage.snapshot_writer(z(at), DIGEST)
    for chunk in chunks:
        writer.write(chunk)
    writer.finish()
    storage.purge()
    return disk, storage


def arrived(count: int) -> list[Write]:
    return [epochs(1, 1), BeginSnapshot(0, AT), *(SnapshotChunk(0, chunk) for chunk in CHUNKS[:count])]


def a_learner(count: int) -> tuple[MemoryDisk, Storage]:
    """Return a learner with this number of chunks before the link broke."""
    disk = MemoryDisk()
    storage, _ = opened(disk)
    storage.perform([*arrived(count), KeepSnapshot(0)])
    return disk, storage


def rest(leader: Storage, held: SnapHeld) -> list[Write]:
    chunks = [SnapshotChunk(0, chunk) for chunk in leader.read_rest(held)]
    return [ResumeSnapshot(0, held), *chunks, InstallSnapshot(0, held.zxid, DIGEST)]


@pytest.mark.parametrize("count", range(1, len(CHUNKS) + 1))
def test_the_beginning_and_the_rest_are_the_snapshot(count: int) -> None:
    _, leader = a_source()
    disk, learner = a_learner(count)
    held = learner.held
    assert held is not None
    found = leader.find_snapshot(held)
    assert found is not None
    assert (found.digest, held.size < found.size) == (DIGEST, True)
    assert list(leader.read_rest(held)) == CHUNKS[count:]
    learner.perform(rest(leader, held))
    assert list(learner.read_snapshot(AT)) == CHUNKS
    assert PARTIAL not in disk.names()
    assert learner.held is None


def test_no_chunk_is_nothing_to_keep() -> None:
    disk, learner = a_learner(0)
    assert learner.held is None
    assert disk.names() == ("epochs",)


def test_it_breaks_off_again_and_again() -> None:
    _, leader = a_source()
    _, learner = a_learner(2)
    for count in (4, 7):
        held = learner.held
        assert held is not None
        more = list(leader.read_rest(held))[: count - 2]
        learner.perform([ResumeSnapshot(0, held), *(SnapshotChunk(0, chunk) for chunk in more), KeepSnapshot(0)])
    held = learner.held
    assert held is not None
    learner.perform(rest(leader, held))
    assert list(learner.read_snapshot(AT)) == CHUNKS


@pytest.mark.parametrize("ends", ["killed while it arrives", "killed afterwards", "closed while it arrives"])
def test_a_restart_keeps_it(ends: str) -> None:
    _, leader = a_source()
    disk, learner = a_learner(4)
    if ends != "killed afterwards":
        learner.perform(arrived(4)[1:])
    if ends == "killed while it arrives":
        learner._incoming._flush()  # type: ignore[union-attr]  # as it does every 256 kB
    if ends == "closed while it arrives":
        learner.close()
    disk.kill()
    learner, recovered = opened(disk)
    assert recovered.held is not None
    assert recovered.held == learner.held
    assert len(list(leader.read_rest(recovered.held))) == len(CHUNKS) - 4
    learner.perform(rest(leader, recovered.held))
    assert list(learner.read_snapshot(AT)) == CHUNKS


@pytest.mark.parametrize(
    "writes",
    [[AbortSnapshot(0)], [BeginSnapshot(0, z("1/7")), SnapshotChunk(0, b"another")], snapshot_writes("1/7", 5, b"all")],
    ids=["dropped", "another begins", "another is installed"],
)
def test_it_is_deleted_when_it_is_stale(writes: list[Write]) -> None:
    disk, learner = a_learner(4)
    learner.perform(writes)
    assert learner.held is None
    assert PARTIAL not in disk.names()


def test_partial_snapshot_resumes_only_from_durable_chunks() -> None:
    _, learner = a_learner(4)
    assert learner.held is not None
    with pytest.raises(LocalProtocolError, match="is not kept here"):
        learner.perform([ResumeSnapshot(0, SnapHeld(AT, learner.held.size, bytes(16)))])


# -- damage ----------------------------------------------------------------------------------------------


def test_chunks_after_damage_are_not_kept() -> None:
    """Found at the next start: as much as is sound before it is offered, and it is the beginning of the snapshot."""
    _, leader = a_source()
    disk, _ = a_learner(6)
    whole = disk.get(PARTIAL)
    for at in range(0, len(whole), 37):
        copy = MemoryDisk()
        for name in disk.names():
            copy.put(name, disk.get(name))
        copy.put(PARTIAL, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        learner, recovered = opened(copy)
        if recovered.held is None:
            assert PARTIAL not in copy.names()
            continue
        assert recovered.held.size <= at
        assert leader.find_snapshot(recovered.held) is not None
        learner.perform(rest(leader, recovered.held))
        assert list(learner.read_snapshot(AT)) == CHUNKS


@pytest.mark.parametrize("power", ["stays", "fails"])
def test_a_crash_at_any_call_leaves_a_beginning_or_nothing(power: str) -> None:
    _, leader = a_source()
    random = Random(7)
    resumed = 0
    for change in range(200):
        disk = MemoryDisk()
        learner, _ = opened(disk)
        learner.perform([epochs(1, 1)])
        disk.crash_at(disk.changes + change)
        try:
            learner.perform([*arrived(5)[1:], KeepSnapshot(0)])
            assert learner.held is not None
            learner.perform(rest(leader, learner.held))
        except Crash:
            pass
        else:
            break
        if power == "fails":
            disk.crash(random.randrange)
        else:
            disk.kill()
        learner, recovered = opened(disk)
        if learner.newest_snapshot is None and recovered.held is not None:
            assert leader.find_snapshot(recovered.held) is not None
            learner.perform(rest(leader, recovered.held))
            resumed += 1
        if learner.newest_snapshot is not None:
            assert list(learner.read_snapshot(AT)) == CHUNKS
    else:
        raise AssertionError("it never comes to its end")
    assert resumed or power == "fails"


# -- at the leader ---------------------------------------------------------------------------------------


def test_a_file_with_another_beginning_is_not_the_one() -> None:
    _, learner = a_learner(4)
    assert learner.held is not None
    assert a_source([b"".join(CHUNKS)])[1].find_snapshot(learner.held) is None
    assert a_source([*CHUNKS[:3], bytes(len(CHUNKS[3])), *CHUNKS[4:]])[1].find_snapshot(learner.held) is None
    assert a_source(CHUNKS[:3])[1].find_snapshot(learner.held) is None
    assert a_source(CHUNKS, "1/6")[1].find_snapshot(learner.held) is None


def test_a_file_that_is_damaged_anywhere_is_not_the_one() -> None:
    """Otherwise the learner would repeat the transfer for ever, each time up to the damage."""
    _, learner = a_learner(4)
    assert learner.held is not None
    disk, leader = a_source()
    (name,) = [name for name in disk.names() if name.startswith("snapshot.")]
    whole = disk.get(name)
    for at in range(0, len(whole), 41):
        disk.put(name, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert leader.find_snapshot(learner.held) is None


def test_a_snapshot_for_a_learner_displaces_none_but_its_predecessor() -> None:
    disk, storage = a_source()

    def take(at: str, spare: bool) -> list[str]:
        writer = storage.snapshot_writer(z(at), 1)
        writer.write(b"state")
        writer.finish()
        storage.purge(2, z(at) if spare else None)
        return [name for name in disk.names() if name.startswith("snapshot.")]

    name = "snapshot.10000000"
    assert take("1/6", False) == [name + "5", name + "6"]
    assert take("1/7", True) == [name + "5", name + "6", name + "7"]
    assert take("1/8", True) == [name + "5", name + "6", name + "8"]
    assert take("1/9", False) == [name + "6", name + "8", name + "9"]
