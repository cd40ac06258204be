"""The real disk: the guarantees of the memory disk on real files, and its errors."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from tests import forkserver
from tests.unit.storage.model import Model, append, check, epochs, run_steps, snapshot_writes, z
from tests.unit.storage.test_crash_everywhere import WORKLOAD
from zab.core.errors import StorageError
from zab.core.ready import BeginSnapshot, SnapshotChunk
from zab.core.zxid import Zxid, make
from zab.storage.disk import Disk, FolderDisk, read_all, write_atomically
from zab.storage.log_reader import Purged
from zab.storage.real_disk import RealDisk
from zab.storage.storage import Storage, StorageSettings

ROOT = Path(__file__).resolve().parents[2]
SMALL = StorageSettings(segment_bytes=64 << 10)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    real = RealDisk(tmp_path / "data")
    yield real
    real.close()


def test_it_is_a_disk(disk: RealDisk) -> None:
    as_disk: Disk = disk
    write_atomically(as_disk, "a", b"abc")
    assert as_disk.list() == ("a",)
    file = as_disk.open("a")
    assert (file.name, file.size(), file.read(1, 1), file.read(2, 9), file.read(7, 3)) == ("a", 3, b"b", b"c", b"")
    file.write(5, b"xyz")
    assert file.read(0, 8) == b"abc\0\0xyz"
    file.allocate(10_000)
    file.allocate(5)
    assert file.size() == 10_000
    assert file.read(8, 20_000) == bytes(9992)
    file.sync()
    as_disk.rename("a", "b")
    assert file.read(0, 3) == b"abc"
    as_disk.delete("b")
    assert file.read(0, 3) == b"abc"
    file.close()
    assert as_disk.list() == ()
    as_disk.create("c").close()
    assert read_all(as_disk, "c") == b""


def test_space_is_taken_when_it_is_allocated(disk: RealDisk) -> None:
    file = disk.create("a")
    file.allocate(4 << 20)
    file.close()
    blocks = os.stat(disk.path / "a").st_blocks
    assert blocks * 512 >= 4 << 20


def test_other_peoples_files_are_none_of_ours(disk: RealDisk) -> None:
    (disk.path / "subdirectory").mkdir()
    disk.create("a").close()
    assert disk.list() == ("a",)
    assert (disk.path / "lock").read_text() == f"{os.getpid()}\n"


def test_data_files_are_not_world_readable(disk: RealDisk) -> None:
    disk.create("a").close()
    assert stat.S_IMODE(os.stat(disk.path / "a").st_mode) & 0o007 == 0


def test_a_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    RealDisk(tmp_path / "not" / "there" / "yet").close()
    assert (tmp_path / "not" / "there" / "yet" / "lock").exists()


def test_folders_hold_files_of_their_own(disk: RealDisk) -> None:
    as_disk: FolderDisk = disk
    as_disk.make_folder("one")
    as_disk.make_folder("one")
    file = as_disk.create("one/a")
    file.write(0, bytearray(b"abc"))
    file.truncate(2)
    file.close()
    as_disk.sync_dir("one")
    as_disk.sync_dir()
    assert (as_disk.list(), as_disk.folders()) == ((), ("one",))
    assert as_disk.stats("one")["a"].size == 2
    assert abs(as_disk.stats("one")["a"].modified_ms - time.time() * 1000) < 60_000
    as_disk.discard("one/gone")
    as_disk.rename_folder("one", "two")
    assert read_all(as_disk, "two/a") == b"ab"
    as_disk.delete_folder("two")
    assert as_disk.folders() == ()
    with pytest.raises(StorageError, match=rf"cannot list {disk.path}/two: .*ENOENT"):
        as_disk.stats("two")
    assert as_disk.room() > 0


def test_full_disk_does_not_keep_a_directory_from_being_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    disk = RealDisk(tmp_path)
    with pytest.raises(StorageError, match=r"by another process \(pid unknown\): stop it"):
        RealDisk(tmp_path)
    disk.close()


# -- the whole storage on it -----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [SMALL, StorageSettings(segment_bytes=2000, preallocate=False)])
def test_the_workload_of_the_crash_tests(disk: RealDisk, settings: StorageSettings) -> None:
    reached: list[Sequence[Model]] = []
    storage = run_steps(disk, settings, WORKLOAD, reached)
    storage, recovered = Storage.open(disk, settings)
    check(recovered, storage, reached[-1])
    storage.close()
    storage, again = Storage.open(disk, settings)
    assert again == recovered
    storage.close()


def test_a_log_over_many_files(disk: RealDisk) -> None:
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([epochs(1, 1)])
    for number in range(1, 2001, 20):
        storage.perform([append(f"1/{each}", b"%d" % each * 30) for each in range(number, number + 20)])
    assert len([name for name in disk.list() if name.startswith("log.")]) > 3
    assert [each.last for each in storage.read_log(make(1, 700), make(1, 1500))][-1] == make(1, 1500)
    writer = storage.snapshot_writer(make(1, 1990), 9)
    for number in range(500):
        writer.write(b"%d" % number * 1000)
    writer.finish()
    assert storage.purge(1) > make(1, 1000)
    _, recovered = Storage.open(disk, SMALL)
    assert (recovered.snapshot, recovered.digest, len(recovered.batches)) == (make(1, 1990), 9, 10)
    assert sum(map(len, storage.read_snapshot(make(1, 1990)))) == sum(
        len(b"%d" % number * 1000) for number in range(500)
    )


def test_reading_beside_writing(disk: RealDisk) -> None:
    """Two threads read while one appends, takes snapshots and purges: each read is right or raises purged."""
    storage, _ = Storage.open(disk, StorageSettings(segment_bytes=20_000))
    storage.perform([epochs(1, 1), append("1/1", b"1" * 10)])
    wrong: list[BaseException] = []
    read = purged = 0
    done = threading.Event()

    def reader(random: Random) -> None:
        nonlocal read, purged
        try:
            while not done.is_set():
                last = storage.last & 0xFFFFFFFF
                after = random.randrange(last)
                try:
                    for each in storage.read_log(make(1, after) if after else Zxid(0), make(1, last)):
                        assert each.payloads() == [b"%d" % (after + 1) * 10]
                        after += 1
                        read += 1
                    assert after == last
                except Purged:
                    purged += 1
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=reader, args=(Random(seed),)) for seed in range(2)]
    for each in readers:
        each.start()
    number = 1
    while not wrong and (number < 3000 or not (read and purged)):
        group = range(number + 1, number + 6)
        storage.perform([append(f"1/{each}", b"%d" % each * 10) for each in group])
        number += 5
        if number % 500 < 5:
            storage.snapshot_writer(make(1, number), 0).finish()
            storage.purge(2)
    done.set()
    for each in readers:
        each.join()
    assert not wrong, wrong


# -- one process at a time -------------------------------------------------------------------------------


def test_a_second_opening_is_refused(disk: RealDisk) -> None:
    with pytest.raises(StorageError, match="in use by this process already"):
        RealDisk(disk.path)
    disk.close()
    disk.close()
    RealDisk(disk.path).close()


def run_python(code: str, *args: str) -> subprocess.Popen[str]:
    return forkserver.start(
        ["-c", textwrap.dedent(code), *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_process_is_refused_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    code = """
        import sys
        from zab.core.errors import StorageError
        from zab.storage.real_disk import RealDisk
        try:
            disk = RealDisk(sys.argv[1])
        except StorageError as error:
            print(error)
            sys.exit(3)
        print("open", flush=True)
        sys.stdin.read()
    """
    path = tmp_path / "data"
    with run_python(code, str(path)) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with run_python(code, str(path)) as second:
            said, _ = second.communicate(timeout=120)
        assert second.returncode == 3
        assert f"{path} is in use by another process (pid {first.pid})" in said
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=120)
    RealDisk(path).close()


# -- how it says no --------------------------------------------------------------------------------------


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=rf"{tmp_path}/file: .*(EEXIST|ENOTDIR)"):
        RealDisk(tmp_path / "file")
    with pytest.raises(StorageError, match="must be a directory"):
        RealDisk(tmp_path / "file" / "below")


def test_a_file_that_vanished(disk: RealDisk) -> None:
    for act in (lambda: disk.open("a"), lambda: disk.delete("a"), lambda: disk.rename("a", "b")):
        with pytest.raises(StorageError, match=rf"cannot \w+ {disk.path}/a: .*\(ENOENT\); .*removed while"):
            act()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_disk_without_a_byte_left(disk: RealDisk) -> None:
    (disk.path / "full").symlink_to("/dev/full")
    file = disk.open("full")
    with pytest.raises(StorageError, match=r"cannot write .*/full: No space left on device \(ENOSPC\); free some"):
        file.write(0, b"x")
    file.close()


def test_a_disk_that_fills_up_while_the_server_works(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: part of a write arrives, then it fails."""
    code = """
        import resource, signal, sys
        from tests.unit.storage.model import append, epochs
        from zab.core.errors import StorageError
        from zab.storage.real_disk import RealDisk
        from zab.storage.storage import Storage, StorageSettings
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        storage, _ = Storage.open(RealDisk(sys.argv[1]), StorageSettings(preallocate=sys.argv[2] == "True"))
        storage.perform([epochs(1, 1)])
        number = 0
        try:
            while True:
                number += 1
                storage.perform([append(f"1/{number}", b"x" * 3000)])
                print(number, flush=True)
        except StorageError as error:
            print(error)
        try:
            storage.perform([])
        except StorageError as error:
            print("then:", error)
    """
    for preallocate in (False, True):
        path = tmp_path / str(preallocate)
        with run_python(code, str(path), str(preallocate)) as process:
            said, wrong = process.communicate(timeout=120)
        assert process.returncode == 0, wrong
        *saved, failure, then = said.splitlines()
        assert f"cannot {'allocate space for' if preallocate else 'write'} {path}/log.100000001: " in failure
        assert "(EFBIG); raise the file size limit" in failure
        assert then.startswith("then: the storage writes nothing more: cannot")
        assert bool(saved) != preallocate, "with preallocation a full disk is noticed before a write depends on it"
        _, recovered = Storage.open(RealDisk(path))
        assert (len(recovered.batches), recovered.voting) == (len(saved), True)


def test_an_error_of_each_call_names_the_file_and_the_way_out(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_named: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = disk.create("a")
    for name, act, what in [
        ("fdatasync", file.sync, f"sync {disk.path}/a"),
        ("pread", lambda: file.read(0, 1), f"read {disk.path}/a"),
        ("pwrite", lambda: file.write(0, b"x"), f"write {disk.path}/a"),
        ("fstat", file.size, f"inspect {disk.path}/a"),
        ("fsync", disk.sync_dir, f"sync {disk.path}"),
        ("scandir", disk.list, f"list {disk.path}"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(os, name, broken)
            if name == "fdatasync":
                patch.setattr("zab.storage.real_disk._sync", broken)
            with pytest.raises(StorageError, match=rf"^cannot {what}: Input/output error \(EIO\); the disk is failing"):
                act()
    file.close()


def test_a_short_write_is_carried_on_and_a_short_read_too(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, data[:3], offset))
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: read(fd, min(length, 4), offset))
    file = disk.create("a")
    file.write(2, b"0123456789")
    assert file.read(0, 100) == b"\0\x000123456789"
    assert file.read(3, 7) == b"1234567"
    file.close()


def test_a_file_system_without_allocation_gets_zeros(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_args: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    file = disk.create("a")
    file.allocate(5000)
    assert file.read(0, 9999) == bytes(5000)
    file.close()


# -- kill -9 ---------------------------------------------------------------------------------------------


def test_killed_process_keeps_reported_writes(tmp_path: Path) -> None:
    code = """
        import sys
        from tests.unit.storage.model import append, epochs, z
        from zab.core.zxid import Zxid, make
        from zab.storage.real_disk import RealDisk
        from zab.storage.storage import Storage, StorageSettings
        storage, recovered = Storage.open(RealDisk(sys.argv[1]), StorageSettings(segment_bytes=50_000))
        assert recovered.voting, recovered.damage
        storage.perform([epochs(1, 1)])
        number = storage.last & 0xFFFFFFFF
        while True:
            group = [append(f"1/{number + index}", b"%d." % (number + index) * 40) for index in range(1, 8)]
            storage.perform(group)
            number += 7
            print(number, flush=True)
            if number % 70 == 0:
                writer = storage.snapshot_writer(make(1, number), number)
                writer.write(b"state of %d" % number)
                writer.finish()
                storage.purge()
    """
    path = tmp_path / "data"
    reported = 0
    for turn in range(6):
        with run_python(code, str(path)) as process:
            assert process.stdout is not None
            for _ in range(30 + 17 * turn):
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                reported = int(line)
            process.send_signal(signal.SIGKILL)
            rest, _ = process.communicate(timeout=120)
        lines = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        reported = int(lines[-1]) if lines else reported
        disk = RealDisk(path)
        storage, recovered = Storage.open(disk, StorageSettings(segment_bytes=50_000))
        assert recovered.voting
        assert storage.last >= make(1, reported)
        for each in recovered.batches:
            assert each.payloads() == [b"%d." % (each.first & 0xFFFFFFFF) * 40]
        if recovered.snapshot:
            assert list(storage.read_snapshot(recovered.snapshot)) == [f"state of {recovered.digest}".encode()]
        storage.close()
        disk.close()


def test_an_incoming_snapshot_that_was_never_finished_leaves_its_beginning(disk: RealDisk) -> None:
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([epochs(1, 1), BeginSnapshot(0, z("1/5")), SnapshotChunk(0, b"x" * 3_000_000)])
    storage, recovered = Storage.open(disk, SMALL)
    assert disk.list() == ("epochs", "partial.tmp")
    assert recovered.held is not None
    assert recovered.held.size > 3_000_000
    storage.perform(snapshot_writes("1/5", 5, b"y" * 3_000_000))
    assert "partial.tmp" not in disk.list()
    assert list(storage.read_snapshot(z("1/5"))) == [b"y" * 3_000_000]
