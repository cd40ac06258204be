"""The logs of a broker on a real disk: a writer is killed without warning, again and again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from replica.core.errors import KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.storage.files import StorageFailure
from replica.storage.log_manager import LogManager, ManagerSettings
from replica.wire.records import batch_of
from tests import forkserver
from tests.unit.replica.storage.logs import NOW, batch, records_in, values_in

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5


def opened(path: Path) -> LogManager:
    manager = LogManager.open([str(path)], lambda topic: LogConfig.of({"segment.bytes": "4000"}))
    manager.load(1, "cluster")
    return manager


def write_until_killed(path: Path, lines: int) -> list[list[int]]:
    """log -> lower bounds of its end and of its durable end"""
    command = ["-m", "tests.integration.log_writer", str(path)]
    with forkserver.start(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = ""
        try:
            for _ in range(lines):
                said = writer.stdout.readline()
                assert said, "the writer has ended by itself"
        finally:
            writer.kill()
        rest = [line for line in writer.stdout if line.endswith("\n")]
    numbers = [int(each) for each in (rest[-1] if rest else said).split()]
    return [numbers[at : at + 2] for at in range(0, len(numbers), 2)]


def test_nothing_that_was_appended_is_lost_by_kill_9(tmp_path: Path) -> None:
    for round_ in range(ROUNDS):
        told = write_until_killed(tmp_path, 30 + 40 * round_)
        manager = opened(tmp_path)
        assert not manager.was_clean
        for number, (end, _) in enumerate(told):
            log = manager.get(("t", number))
            assert log is not None
            assert log.end_offset >= end, "the page cache outlives the process"
            assert [record.value for record in records_in(log)] == [b"%d" % n for n in range(log.end_offset)]
            known = log.producers.last_entry(7)
            assert known is not None
            assert known.last_offset == log.end_offset - 1
        for directory in manager.directories:
            directory.handles.close()
            directory.files.close()  # as if killed, too: nothing is flushed, no marker is left


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StorageFailure, match="in use by another broker"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_a_start_after_an_orderly_end(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    log = manager.get_or_create(("t", 0), bytes(16))
    for n in range(60):
        log.append_as_leader(batch(b"%d" % n * 20, time=NOW + n), 0, NOW)
    manager.close()
    again = opened(tmp_path)
    assert again.was_clean
    found = again.get(("t", 0))
    assert found is not None
    assert values_in(found) == [b"%d" % n * 20 for n in range(60)]
    assert found.find_timestamp(NOW + 30) is not None
    again.delete(("t", 0), NOW)
    again.delete_due_files(NOW + 60_000)
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]
    again.close()


def test_compaction_of_real_files(tmp_path: Path) -> None:
    config = LogConfig.of({"cleanup.policy": "compact", "segment.bytes": "2000"})
    manager = LogManager.open([str(tmp_path)], lambda topic: config)
    manager.load(1, "cluster")
    log = manager.get_or_create(("t", 0))
    for n in range(300):
        log.append_as_leader(batch_of([(b"%d" % (n % 5), b"%d" % n)], NOW), 0, NOW)
    log.flush()
    before = log.size
    while manager.clean_one(NOW, {("t", 0): 300}) is not None:
        pass
    assert log.size < before / 3
    expected = [b"%d" % n for n in range(295, 300)]
    assert values_in(log)[-5:] == expected
    manager.close()
    again = LogManager.open([str(tmp_path)], lambda topic: config)
    again.load(1, "cluster")
    found = again.get(("t", 0))
    assert found is not None
    assert values_in(found)[-5:] == expected
    again.close()


def test_flushes_and_cleanings_run_beside_appends_and_truncations(tmp_path: Path) -> None:
    config = LogConfig.of({"cleanup.policy": "compact", "segment.bytes": "3000", "index.interval.bytes": "200"})
    manager = LogManager.open([str(tmp_path)], lambda topic: config, ManagerSettings(open_files_max=2))
    manager.load(1, "cluster")
    logs = [manager.get_or_create(("t", number)) for number in range(3)]
    done, failures, rounds = Event(), [], [0]

    def beside() -> None:
        try:
            while not done.is_set() or rounds[0] < 3:
                for log in logs:
                    log.flush()
                manager.checkpoint()
                manager.clean_one(NOW, {partition: log.end_offset for partition, log in manager.logs.items()})
                rounds[0] += 1
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=beside)
    thread.start()
    chance = Random(1)
    for step in range(1500):
        log = chance.choice(logs)
        log.append_as_leader(batch_of([(b"%d" % chance.randrange(40), b"%d" % step)], NOW), 0, NOW)
        if step % 50 == 49:
            log.truncate_to(max(log.start_offset, log.end_offset - chance.randrange(60)))
        log.read(chance.randint(log.start_offset, log.end_offset), 5000, log.end_offset)
    done.set()
    thread.join()
    assert failures == []
    newest = [{record.key: record.value for record in records_in(log)} for log in logs]
    for directory in manager.directories:
        directory.handles.close()
        directory.files.close()
    again = LogManager.open([str(tmp_path)], lambda topic: config)
    again.load(1, "cluster")
    assert again.damaged == {}
    for number, kept in enumerate(newest):
        found = again.get(("t", number))
        assert found is not None
        assert {record.key: record.value for record in records_in(found)} == kept
    again.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_says_so(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    log = manager.get_or_create(("t", 0))
    log.append_as_leader(batch(b"a"), 0, NOW)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    manager.directories[0].handles.close()
    path.unlink()
    path.symlink_to("/dev/full")
    with pytest.raises(KafkaError, match=r"cannot write .*No space left.*free some space"):
        log.append_as_leader(batch(b"b"), 0, NOW)
    assert manager.failures()[0][0] == str(tmp_path)
    manager.close()
