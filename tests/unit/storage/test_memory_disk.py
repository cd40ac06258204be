"""The memory disk loses at least as much as a real one. A fault that it forgives would escape every test."""

from __future__ import annotations

import errno
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.errors import StorageError
from zab.storage.disk import SECTOR, Disk, DiskErrors, FileStat, FolderDisk, read_all, write_atomically
from zab.storage.memory_disk import Crash, MemoryDisk
from zab.storage.power_loss import AnySectors, Choose


def durable_file(disk: MemoryDisk, name: str, data: bytes) -> None:
    file = disk.create(name)
    file.write(0, data)
    file.sync()
    disk.sync_dir()


def test_it_is_a_disk() -> None:
    disk: Disk = MemoryDisk()
    write_atomically(disk, "a", b"abc")
    assert read_all(disk, "a") == b"abc"
    assert disk.list() == ("a",)


def test_contents_and_names_are_durable_each_by_their_own_sync() -> None:
    for content, name in [(False, False), (False, True), (True, False), (True, True)]:
        disk = MemoryDisk()
        file = disk.create("a")
        file.write(0, b"abc")
        if content:
            file.sync()
        if name:
            disk.sync_dir()
        disk.crash()
        assert disk.names() == (("a",) if name else ())
        if name:
            assert disk.get("a") == (b"abc" if content else b"")


def test_a_crash_may_keep_everything() -> None:
    disk = MemoryDisk()
    disk.create("a").write(2, b"abc")
    disk.rename("a", "b")
    disk.crash(keep=True)
    assert disk.get("b") == b"\0\0abc"
    disk.crash()
    assert disk.names() == ("b",), "what survived a crash is on the disk"


def test_killed_process_leaves_unsynced_writes_in_the_page_cache() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abc")
    disk.open("a").write(3, b"def")
    disk.kill()
    assert disk.get("a") == b"abcdef"
    disk.crash()
    assert disk.get("a") == b"abc"


def test_overwritten_and_allocated_bytes_come_back() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abcdef")
    file = disk.open("a")
    file.write(1, b"XY")
    file.write(2, b"Z")
    file.allocate(10)
    file.write(8, b"!")
    assert disk.get("a") == b"aXZdef\0\0!\0"
    disk.crash()
    assert disk.get("a") == b"abcdef"


def test_a_rename_replaces_at_once_or_not_at_all() -> None:
    seen = set()
    for seed in range(40):
        disk = MemoryDisk()
        durable_file(disk, "a", b"old")
        durable_file(disk, "b", b"new")
        disk.rename("b", "a")
        disk.crash(Random(seed).randrange)
        seen.add((disk.names(), disk.get("a")))
    assert seen == {(("a", "b"), b"old"), (("a",), b"new")}


def test_names_may_survive_in_any_order() -> None:
    seen = set()
    for seed in range(300):
        disk = MemoryDisk()
        durable_file(disk, "a", b"")
        disk.create("b")
        disk.delete("a")
        disk.create("c")
        disk.crash(Random(seed).randrange)
        seen.add(disk.names())
    assert {(), ("a",), ("b",), ("c",), ("a", "c"), ("a", "b", "c"), ("b", "c")} <= seen


def test_a_torn_write_leaves_whole_sectors_of_old_and_new() -> None:
    kept: set[tuple[bool, ...]] = set()
    prefixes = set()
    for seed in range(300):
        disk = MemoryDisk()
        durable_file(disk, "a", b"o" * 4 * SECTOR)
        disk.open("a").write(100, b"n" * 3 * SECTOR)
        disk.crash(Random(seed).randrange)
        data = disk.get("a")
        assert data[:100] == b"o" * 100
        assert data[100 + 3 * SECTOR :] == b"o" * (SECTOR - 100)
        written = data[100 : 100 + 3 * SECTOR]
        prefix = len(written) - len(written.lstrip(b"n"))
        if b"n" not in written[prefix:]:
            prefixes.add(prefix)
        else:
            sectors = [data[max(100, at) : min(at + SECTOR, 100 + 3 * SECTOR)] for at in range(0, 4 * SECTOR, SECTOR)]
            assert all(len(set(sector)) == 1 for sector in sectors)
            kept.add(tuple(sector[0] == ord("n") for sector in sectors))
    assert len(prefixes) > 20, "a killed process stops anywhere"
    assert len(kept) > 6, "a disk that loses power writes in any order"


def test_a_sector_is_a_moment_in_time() -> None:
    """A sector never holds a later write without an earlier one: the system writes it as it stands in memory."""
    for seed in range(200):
        disk = MemoryDisk()
        durable_file(disk, "a", b"")
        file = disk.open("a")
        file.write(0, b"1" * 300)
        file.write(300, b"2" * 300)
        disk.crash(Random(seed).randrange)
        data = disk.get("a").ljust(600, b"\0")
        if b"2" in data[300:SECTOR]:
            assert data[:300] == b"1" * 300


def test_the_same_choices_leave_the_same_disk() -> None:
    def outcome(choose: Choose) -> list[tuple[str, bytes]]:
        disk = MemoryDisk()
        for number in range(4):
            file = disk.create(f"f{number}")
            file.write(0, bytes([number + 1]) * 2000)
        disk.rename("f0", "f1")
        disk.crash(choose)
        return [(name, disk.get(name)) for name in disk.names()]

    assert outcome(Random(5).randrange) == outcome(Random(5).randrange)
    assert len({repr(outcome(Random(seed).randrange)) for seed in range(20)}) > 10


def test_a_failed_sync_leaves_bytes_in_doubt_for_ever() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a")
    file.write(3, b"def")
    disk.fail("sync")
    with pytest.raises(StorageError, match=r"cannot sync a: .*\(EIO\)"):
        file.sync()
    file.write(6, b"ghi")
    file.sync()  # "done", says the system, and means only what came after
    assert disk.get("a") == b"abcdefghi"
    disk.crash()
    assert disk.get("a") == b"abc\0\0\0ghi"


def test_a_sync_that_lies() -> None:
    disk = MemoryDisk()
    disk.lying = True
    durable_file(disk, "a", b"abc")
    other = disk.clone()
    other.crash()
    assert other.names() == ()
    disk.lying = False
    disk.open("a").sync()
    disk.sync_dir()
    disk.crash()
    assert disk.get("a") == b"abc"


def test_the_nth_call_of_a_kind_fails_once() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    disk.fail("write", 1, errno.EROFS)
    file.write(0, b"a")
    with pytest.raises(StorageError, match="read-only"):
        file.write(1, b"b")
    file.write(1, b"c")
    assert disk.get("a") == b"ac"
    disk.fail("read")
    with pytest.raises(StorageError, match="cannot read a: .*replace the disk"):
        file.read(0, 1)


def test_full_disk_writes_the_part_that_fits() -> None:
    disk = MemoryDisk()
    disk.capacity = 10
    file = disk.create("a")
    file.write(0, b"x" * 8)
    with pytest.raises(StorageError, match="free some space"):
        file.write(8, b"yyyy")
    assert disk.get("a") == b"x" * 8 + b"yy"
    file.write(0, b"zz")  # overwriting takes no room
    with pytest.raises(StorageError, match="ENOSPC"):
        file.allocate(11)
    disk.delete("a")
    disk.create("b").write(0, b"1" * 10)


def test_a_write_that_goes_astray() -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    disk.divert = 5
    file.write(0, b"abc")
    file.write(0, b"def")
    assert disk.get("a") == b"def\0\0abc"


def test_a_dead_server_does_nothing_more() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a")
    disk.crash_at(disk.changes + 1)
    file.write(0, b"x")
    with pytest.raises(Crash, match="before change 5, sync a"):
        file.sync()
    for act in (lambda: file.read(0, 1), disk.list, lambda: disk.delete("a"), disk.sync_dir):
        with pytest.raises(Crash, match="dead"):
            act()
    disk.crash()
    assert disk.get("a") == b"abc"
    with pytest.raises(Crash, match="before the crash"):
        file.read(0, 1)


def test_a_crash_after_a_call_leaves_its_effect() -> None:
    disk = MemoryDisk()
    disk.crash_at(1, after=True)
    file = disk.create("a")
    with pytest.raises(Crash, match="after change 1"):
        file.write(0, b"abc")
    assert disk.get("a") == b"abc"


def test_a_clone_is_another_disk() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abc")
    disk.open("a").write(0, b"xyz")
    disk.create("b")
    clone = disk.clone()
    disk.open("a").write(0, b"123")
    disk.sync_dir()
    assert clone.get("a") == b"xyz"
    clone.crash()
    assert clone.names() == ("a",)
    assert clone.get("a") == b"abc"
    assert disk.get("a") == b"123"


def test_an_open_file_survives_its_name() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abc")
    file = disk.open("a")
    durable_file(disk, "b", b"new")
    disk.rename("b", "a")
    assert file.read(0, 9) == b"abc"
    disk.delete("a")
    assert file.read(1, 1) == b"b"
    with pytest.raises(StorageError, match="ENOENT"):
        disk.open("a")


def test_bytes_behind_a_truncation_come_back_after_a_crash() -> None:
    disk = MemoryDisk()
    durable_file(disk, "a", b"abcdef")
    file = disk.open("a")
    file.truncate(2)
    file.write(2, b"X")
    file.truncate(5)
    assert disk.get("a") == b"abX\0\0"
    assert disk.durable("a") == b"abcdef"
    clone = disk.clone()
    clone.crash()
    assert clone.get("a") == b"abcdef"
    file.sync()
    disk.crash()
    assert disk.get("a") == b"abX\0\0"


def test_truncation_survives_in_the_order_of_the_changes() -> None:
    seen = set()
    for seed in range(100):
        disk = MemoryDisk()
        durable_file(disk, "a", b"old data")
        file = disk.open("a")
        file.truncate(3)
        file.write(3, b"!")
        disk.crash(Random(seed).randrange)
        seen.add(disk.get("a"))
    assert seen == {b"old data", b"old", b"old!", b"old!data"}, "the last: the write survived, the truncation did not"


# -- folders -------------------------------------------------------------------------------------------------


def test_names_are_durable_folder_by_folder() -> None:
    memory = MemoryDisk()
    disk: FolderDisk = memory
    for folder in ("one", "two"):
        memory.make_folder(folder)
        memory.create(f"{folder}/a").write(0, b"abc")
    memory.create("a")
    memory.sync_dir("one")
    assert (memory.list(), memory.folders()) == (("a",), ("one", "two"))
    memory.crash()
    assert memory.names() == ("one/a",)
    assert disk.folders() == ("one", "two"), "folders are durable at once"


def test_a_folder_is_renamed_and_deleted_with_its_files() -> None:
    disk = MemoryDisk()
    disk.make_folder("one")
    disk.create("one/a").write(0, b"abc")
    disk.sync_dir("one")
    disk.rename_folder("one", "two")
    assert disk.stats("two") == {"a": FileStat(3, 0)}
    disk.crash()
    assert disk.names() == ("two/a",)
    disk.discard("two/gone")
    disk.delete_folder("two")
    assert (disk.names(), disk.folders(), disk.stats("two")) == ((), (), {})


# -- the other policy of a loss of power -------------------------------------------------------------------------


def test_any_sector_and_any_name_may_survive() -> None:
    contents, names = set(), set()
    for seed in range(300):
        disk = MemoryDisk(power_loss=AnySectors)
        durable_file(disk, "a", b"o" * 3 * SECTOR)
        file = disk.open("a")
        file.write(0, b"n" * 3 * SECTOR)
        file.truncate(2 * SECTOR)
        disk.create("b")
        disk.create("c")
        disk.crash(Random(seed).randrange)
        data = disk.get("a")
        assert len(data) in (2 * SECTOR, 3 * SECTOR)
        contents.add(bytes(data[at] for at in range(0, len(data), SECTOR)))
        names.add(disk.names())
    assert {b"ooo", b"noo", b"ono", b"oon", b"nnn", b"oo", b"nn"} <= contents
    assert names == {("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")}


# -- errors of the user ----------------------------------------------------------------------------------------


def test_errors_that_remember_a_failure_forbid_every_later_call_of_the_process() -> None:
    class Once(DiskErrors):
        def check(self) -> None:
            if self.failed is not None:
                raise self.failed

        def error(self, operation: str, where: str, number: int | None) -> Exception:
            self.failed = super().error(operation, where, number)
            return self.failed

    disk = MemoryDisk(Once)
    file = disk.create("a")
    disk.fail("write")
    with pytest.raises(StorageError, match="cannot write a"):
        file.write(0, b"x")
    for act in (file.sync, disk.list, lambda: disk.create("b")):
        with pytest.raises(StorageError, match="cannot write a"):
            act()
    held = disk.errors
    with disk.aside():
        assert disk.list() == ("a",)
        assert held.failed is None
    with pytest.raises(StorageError):
        disk.list()
    disk.kill()
    assert disk.list() == ("a",)


def test_a_checker_that_reads_aside_leaves_injected_failures_and_counts() -> None:
    disk = MemoryDisk()
    disk.create("a")
    disk.fail("open")
    before = dict(disk.counts)
    with disk.aside():
        disk.open("a").read(0, 1)
    assert disk.counts == before
    with pytest.raises(StorageError, match="cannot open a"):
        disk.open("a")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 1500), st.integers(1, 900)),
            st.tuples(st.just("allocate"), st.integers(0, 3000), st.just(0)),
            st.tuples(st.just("sync"), st.just(0), st.just(0)),
        ),
        max_size=12,
    ),
    st.data(),
)
def test_every_byte_after_a_crash_was_there_before_the_crash_since_the_last_sync(
    calls: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    disk = MemoryDisk()
    file = disk.create("a")
    disk.sync_dir()
    synced = b""
    states = [b""]
    fill = count(1)
    for kind, at, length in calls:
        if kind == "write":
            file.write(at, bytes([next(fill)]) * length)
        elif kind == "allocate":
            file.allocate(at)
        else:
            file.sync()
            synced = disk.get("a")
            states = []
        states.append(disk.get("a"))
    disk.crash(lambda n: data.draw(st.integers(0, n - 1)))
    found = disk.get("a")
    assert len(found) >= len(synced)
    possible = [synced, *states]
    for index, byte in enumerate(found):
        assert byte in {state[index] if index < len(state) else 0 for state in possible}
