"""All logs of a broker: restarts, retention, failed disks."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kraft_controller.wire.broker_identity import META
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.storage import checkpoint_files
from replica.storage.checkpoint_files import (
    CLEAN_SHUTDOWN,
    EPOCHS,
    HIGH_WATERMARKS,
    METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    TopicPartition,
    decode_properties,
    read_offsets,
)
from replica.storage.files import LOCK, StorageFailure
from replica.storage.log_manager import LogManager, ManagerSettings
from replica.storage.memory_directory import memory_directory
from replica.wire.records import batch_of
from tests.unit.replica.storage.logs import NOW, batch, numbered, of_producer, values_in
from zab.storage.disk import FolderDisk
from zab.storage.memory_disk import MemoryDisk

T0: TopicPartition = ("t", 0)
DASHED: TopicPartition = ("a-b.c_d", 12)


class Broker:
    def __init__(self, *disks: MemoryDisk, **settings: str) -> None:
        self.disks = disks or (memory_directory(),)
        self.config = LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})
        self.manager = self.start()

    def start(self) -> LogManager:
        settings = ManagerSettings(open_files_max=4, index_bytes_max=16)
        self.manager = LogManager(self.disks, lambda topic: self.config, settings)
        self.manager.load(1, "cluster")
        return self.manager

    def kill(self) -> LogManager:
        for disk in self.disks:
            disk.kill()
        return self.start()


def code_of(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


def test_restart_finds_everything() -> None:
    broker = Broker()
    manager = broker.manager
    for partition in (T0, DASHED):
        log = manager.get_or_create(partition, topic_id=bytes(range(16)))
        log.append_as_leader(batch(b"a", b"b", b"c"), 3, NOW)
        log.append_as_leader(batch(b"d"), 4, NOW)
    manager.get_or_create(T0).increment_start_offset(2)
    manager.checkpoint_high_watermarks({T0: 4})
    manager.close(broker_epoch=77)
    assert CLEAN_SHUTDOWN in broker.disks[0].names()
    again = broker.start()
    assert (again.was_clean, again.directories[0].previous_broker_epoch) == (True, 77)
    assert CLEAN_SHUTDOWN not in broker.disks[0].names()
    assert sorted(again.logs) == [DASHED, T0]
    log = again.get_or_create(T0)
    assert (log.start_offset, log.end_offset, log.latest_epoch, values_in(log)) == (2, 4, 4, [b"c", b"d"])
    assert (again.high_watermark(T0), again.high_watermark(DASHED)) == (4, 0)
    assert again.topic_id(DASHED) == bytes(range(16))
    assert again.get(("u", 0)) is None
    assert again.notes == []


def test_topic_id_of_new_log_lost_with_power_is_written_again() -> None:
    """Nothing of the log was durable, so its name may be there and be empty. That is no damage."""
    broker = Broker()
    broker.manager.get_or_create(T0, topic_id=bytes(range(16)))
    broker.disks[0].put(f"t-0/{METADATA}", b"")
    again = broker.kill()
    assert again.topic_id(T0) is None
    assert len(again.notes) == 1
    again.keep_topic_id(T0, bytes(range(16)))
    assert again.topic_id(T0) == bytes(range(16))


def test_topic_id_of_restarted_log_without_records_may_be_lost() -> None:
    """Where it begins is written down as durable, and nothing has been flushed."""
    broker = Broker()
    log = broker.manager.get_or_create(T0, topic_id=bytes(range(16)))
    log.truncate_fully_and_start_at(36)
    broker.manager.checkpoint()
    broker.disks[0].put(f"t-0/{METADATA}", b"")
    again = broker.kill()
    assert again.logs[T0].recovery_point == again.logs[T0].start_offset == 36
    assert again.topic_id(T0) is None
    assert len(again.notes) == 1


@pytest.mark.parametrize("started_again", [False, True])
def test_topic_id_is_as_durable_as_first_record(started_again: bool) -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0, topic_id=bytes(range(16)))
    log.append_as_leader(batch(b"a"), 0, NOW)
    if started_again:
        log = broker.kill().logs[T0]
    log.flush()
    broker.disks[0].crash()
    again = broker.start()
    assert values_in(again.logs[T0]) == [b"a"]
    assert again.topic_id(T0) == bytes(range(16))


def test_topic_id_that_is_written_after_first_flush_is_durable_at_once() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.flush()
    broker.manager.keep_topic_id(T0, bytes(range(16)))
    broker.manager.checkpoint()
    broker.disks[0].crash()
    again = broker.start()
    assert again.logs[T0].recovery_point == 1
    assert again.topic_id(T0) == bytes(range(16))


def test_restart_after_kill_without_checkpoints() -> None:
    broker = Broker()
    broker.manager.get_or_create(T0).append_as_leader(of_producer(7, 0, b"a"), 3, NOW)
    again = broker.kill()
    assert not again.was_clean
    log = again.get_or_create(T0)
    assert (log.end_offset, log.latest_epoch) == (1, 3)
    assert log.append_as_leader(of_producer(7, 0, b"a"), 3, NOW).duplicate


def test_files_of_directory_have_kafka_layout() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0, topic_id=bytes(16))
    log.append_as_leader(batch(b"a"), 3, NOW)
    log.increment_start_offset(1)
    log.flush()
    broker.manager.checkpoint()
    broker.manager.checkpoint_high_watermarks({T0: 1})
    disk = broker.disks[0]
    assert disk.get(RECOVERY_POINTS) == disk.get(START_OFFSETS) == disk.get(HIGH_WATERMARKS) == b"0\n1\nt 0 1\n"
    assert disk.get(f"t-0/{EPOCHS}") == b"0\n1\n3 0\n"
    assert disk.get(f"t-0/{METADATA}") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
    assert decode_properties(disk.get(META)) == {"version": "0", "broker.id": "1", "cluster.id": "cluster"}
    assert "t-0/00000000000000000000.log" in disk.names()


def test_directory_of_other_broker_is_refused() -> None:
    broker = Broker()
    with pytest.raises(StorageFailure, match=r"belongs to broker 1, but this is broker 2"):
        LogManager(broker.disks, lambda topic: LogConfig()).load(2, "cluster")


def test_high_watermarks_are_written_only_if_one_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    for partition in (T0, DASHED):
        broker.manager.get_or_create(partition).append_as_leader(batch(b"a", b"b"), 0, NOW)
    written: list[dict[tuple[str, int], int]] = []
    write_offsets = checkpoint_files.write_offsets

    def counting(files: FolderDisk, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        written.append(dict(offsets))
        write_offsets(files, name, offsets)

    monkeypatch.setattr(checkpoint_files, "write_offsets", counting)
    for value in (1, 1, 1, 2, 2):
        broker.manager.checkpoint_high_watermarks({T0: value, DASHED: 0})
    assert written == [{T0: 1, DASHED: 0}, {T0: 2, DASHED: 0}]
    assert read_offsets(broker.disks[0], HIGH_WATERMARKS) == {T0: 2, DASHED: 0}


def test_deleted_log_leaves_disk_after_delay() -> None:
    broker = Broker(file_delete_delay_ms="1000")
    manager = broker.manager
    manager.get_or_create(T0).append_as_leader(batch(b"a"), 0, NOW)
    manager.checkpoint_high_watermarks({T0: 1})
    manager.delete(T0, NOW)
    assert manager.get(T0) is None
    assert code_of(lambda: manager.delete(T0, NOW)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert read_offsets(broker.disks[0], RECOVERY_POINTS) == {}
    [folder] = broker.disks[0].folders()
    assert folder.startswith("t-0.")
    assert folder.endswith("-delete")
    log = manager.get_or_create(T0)
    assert (log.end_offset, manager.high_watermark(T0)) == (0, 0)
    manager.delete_due_files(NOW + 999)
    assert len(broker.disks[0].folders()) == 2
    manager.delete_due_files(NOW + 1000)
    assert broker.disks[0].folders() == ("t-0",)
    manager.delete(T0, NOW)
    assert broker.kill().logs == {}
    assert broker.disks[0].folders() == ()


@pytest.mark.parametrize("stop", ["kill", "lost power", "in order"])
@pytest.mark.parametrize("start", [0, 40])
def test_records_after_earlier_restart_are_not_taken_for_deleted(start: int, stop: str) -> None:
    """An unclean election has made somebody leader who has less: the follower, whose start had moved, begins anew."""
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    log.truncate_fully_and_start_at(98)
    log.append_as_leader(batch(b"a", b"b", b"c", b"d"), 1, NOW)
    log.increment_start_offset(100)
    broker.manager.checkpoint()
    broker.manager.checkpoint_high_watermarks({T0: 102})
    assert read_offsets(broker.disks[0], START_OFFSETS) == {T0: 100}
    log.truncate_fully_and_start_at(start)
    log.append_as_follower(numbered(start, 2, b"x", b"y"))
    log.flush()
    if stop == "in order":
        broker.manager.close()
        again = broker.start()
    elif stop == "kill":
        again = broker.kill()
    else:
        broker.disks[0].crash()
        again = broker.start()
    log = again.logs[T0]
    assert (log.start_offset, log.end_offset, values_in(log)) == (start, start + 2, [b"x", b"y"])
    assert again.high_watermark(T0) == start, "nobody has said that any of it is committed"


def test_log_start_stays_where_it_is_if_its_batch_is_truncated() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    log.append_as_leader(batch(b"a"), 1, NOW)
    log.append_as_leader(batch(b"b", b"c", b"d", b"e"), 1, NOW)
    log.increment_start_offset(4)
    broker.manager.checkpoint()
    log.truncate_to(4)
    assert (log.start_offset, log.end_offset) == (4, 4)
    log.append_as_follower(numbered(4, 2, b"x"))
    assert values_in(broker.kill().logs[T0]) == [b"x"]


def test_recreated_log_ignores_checkpoints_of_former_log() -> None:
    """Whether the crash comes before the checkpoints are written again, or behind that."""
    for kills in ("00", "01", "10", "11"):
        broker = Broker(file_delete_delay_ms="0")
        log = broker.manager.get_or_create(T0)
        log.append_as_leader(batch(*[b"a"] * 9), 1, NOW)
        log.increment_start_offset(5)
        log.flush()
        broker.manager.checkpoint()
        broker.manager.checkpoint_high_watermarks({T0: 9})
        broker.manager.delete(T0, NOW)
        manager = broker.kill() if kills[0] == "1" else broker.manager
        manager.get_or_create(T0).append_as_leader(batch(b"x", b"y"), 0, NOW)
        if kills[1] == "1":
            manager = broker.kill()
        assert (manager.damaged, manager.high_watermark(T0)) == ({}, 0)
        assert values_in(manager.logs[T0]) == [b"x", b"y"]


def test_many_deletions_need_one_checkpoint() -> None:
    broker = Broker(file_delete_delay_ms="0")
    manager, disk = broker.manager, broker.disks[0]
    partitions: list[TopicPartition] = [("t", number) for number in range(50)]
    for partition in partitions:
        manager.get_or_create(partition)
    manager.checkpoint()
    waits = disk.counts["sync"]
    for partition in partitions:
        manager.delete(partition, NOW)
    assert disk.counts["sync"] == waits
    for partition in partitions:
        manager.get_or_create(partition)
    assert disk.counts["sync"] == waits + 4, "the four checkpoints were written once, before the first of them"
    manager.delete_due_files(NOW)
    assert len(disk.folders()) == len(partitions)


def test_other_folders_are_left_alone() -> None:
    broker = Broker()
    for folder in ("lost+found", "t-0.0123-future", "t-1-stray"):
        broker.disks[0].make_folder(folder)
    again = broker.kill()
    assert again.logs == {}
    assert len(again.notes) == 3


def test_retention_by_time_size_and_start() -> None:
    broker = Broker(segment_bytes="150", retention_ms="1000", retention_bytes="400", file_delete_delay_ms="10")
    log = broker.manager.get_or_create(T0)
    for n in range(6):
        log.append_as_leader(batch(b"x" * 60, time=NOW + n), 0, NOW)
    assert len(log.segments) == 6
    assert broker.manager.delete_old_segments(NOW + 5, {}) == 0, "nothing goes that may not be committed"
    assert broker.manager.delete_old_segments(NOW + 5, {T0: 6}) == 2
    assert (log.start_offset, log.size < 400 + 140) == (2, True)
    log.increment_start_offset(4)
    assert broker.manager.delete_old_segments(NOW + 5, {T0: 6}) == 2
    assert broker.manager.delete_old_segments(NOW + 1005, {T0: 6}) == 1
    assert (log.start_offset, log.end_offset) == (5, 6)
    assert broker.manager.delete_old_segments(NOW + 1006, {T0: 6}) == 1
    assert (log.start_offset, log.end_offset, len(log.segments)) == (6, 6, 1)
    assert log.epochs.entries == [(0, 0)]
    assert any(name.endswith(".deleted") for name in broker.disks[0].names())
    broker.manager.delete_due_files(NOW + 2000)
    assert not any(name.endswith(".deleted") for name in broker.disks[0].names())
    assert broker.kill().get_or_create(T0).start_offset == 6


def test_idle_segment_is_rolled_by_time() -> None:
    broker = Broker(segment_ms="1000", retention_ms="-1")
    log = broker.manager.get_or_create(T0)
    log.append_as_leader(batch(b"x"), 0, NOW)
    broker.manager.delete_old_segments(NOW + 1000, {T0: 1})
    assert len(log.segments) == 1
    broker.manager.delete_old_segments(NOW + 1001, {T0: 1})
    assert len(log.segments) == 2


def test_each_segment_has_a_random_part_of_the_jitter() -> None:
    draws = iter((0.0, 0.5, 0.25, 0.0))
    config = LogConfig.of({"segment.ms": "1000", "segment.jitter.ms": "400", "retention.ms": "-1"})
    manager = LogManager([memory_directory()], lambda topic: config, draw=draws.__next__)
    manager.load(1, "cluster")
    first, second = manager.get_or_create(T0), manager.get_or_create(("t", 1))
    for log in (first, second):
        log.append_as_leader(batch(b"x"), 0, NOW)
    manager.delete_old_segments(NOW + 801, {})
    assert (len(first.segments), len(second.segments)) == (1, 2)
    second.append_as_leader(batch(b"x", time=NOW + 801), 0, NOW + 801)
    second.append_as_leader(batch(b"x", time=NOW + 1701), 0, NOW + 1701)
    assert len(second.segments) == 2, "the new segment has drawn again"
    second.append_as_leader(batch(b"x", time=NOW + 1702), 0, NOW + 1702)
    assert len(second.segments) == 3


def test_quiet_topic_is_compacted_within_the_lag() -> None:
    broker = Broker(cleanup_policy="compact", max_compaction_lag_ms="1000", min_cleanable_dirty_ratio="1")
    log = broker.manager.get_or_create(T0)
    for value in (b"old", b"new"):
        log.append_as_leader(batch(value, key=b"key"), 0, NOW)
    broker.manager.delete_old_segments(NOW + 1001, {T0: 2})
    log.flush()
    assert broker.manager.clean_one(NOW + 1001, {T0: 2}) is not None
    assert values_in(log) == [b"new"]


def test_flush_ms_and_closed_segments_make_flush_due() -> None:
    broker = Broker(flush_ms="500")
    log = broker.manager.get_or_create(T0)
    log.append_as_leader(batch(b"x"), 0, NOW)
    assert broker.manager.due_for_flush(NOW) == []
    assert broker.manager.due_for_flush(NOW + 499) == []
    assert broker.manager.due_for_flush(NOW + 500) == [log]
    log.flush()
    assert broker.manager.due_for_flush(NOW + 9999) == []
    log.append_as_leader(batch(b"x"), 0, NOW)
    log.roll()
    assert broker.manager.due_for_flush(NOW + 10_000) == [log], "a closed segment is made durable soon"


def test_flush_of_each_message_survives_lost_power() -> None:
    broker = Broker(flush_messages="1", segment_bytes="300")
    log = broker.manager.get_or_create(T0)
    for n in range(10):
        log.append_as_leader(batch(b"%d" % n * 20), n // 4, NOW)
        assert log.recovery_point == n + 1
    broker.disks[0].crash()
    again = broker.start().get_or_create(T0)
    assert values_in(again) == [b"%d" % n * 20 for n in range(10)]
    assert again.epochs.entries == [(0, 0), (1, 4), (2, 8)]


def test_flush_messages_bounds_unflushed_records() -> None:
    broker = Broker(flush_messages="3")
    log = broker.manager.get_or_create(T0)
    for count, durable in ((1, 0), (1, 0), (1, 3), (2, 3), (2, 7)):
        log.append_as_leader(batch(*[b"x"] * count), 0, NOW)
        assert log.recovery_point == durable


def test_compaction_finds_dirty_log() -> None:
    broker = Broker(cleanup_policy="compact", segment_bytes="300")
    log = broker.manager.get_or_create(T0)
    for n in range(8):
        log.append_as_leader(batch_of([(b"k", b"%d" % n * 40)], NOW), 0, NOW)
    assert broker.manager.clean_one(NOW, {T0: 8}) is None, "nothing is durable yet"
    log.flush()
    cleaned = broker.manager.clean_one(NOW, {T0: 8})
    assert cleaned is not None
    assert cleaned[1].records_after == 1
    assert broker.manager.clean_one(NOW, {T0: 8}) is None
    assert broker.kill().directories[0].cleaned == {T0: cleaned[1].upto}


@pytest.mark.parametrize(("kind", "number"), [("write", errno.ENOSPC), ("sync", errno.EIO), ("read", errno.EIO)])
def test_failed_disk_leaves_others_in_use(kind: str, number: int) -> None:
    bad, good = memory_directory(), memory_directory()
    broker = Broker(bad, good)
    manager = broker.manager
    first, second = manager.get_or_create(T0), manager.get_or_create(DASHED)
    first.append_as_leader(batch(b"a"), 0, NOW)
    bad.fail(kind, number=number)
    assert code_of(lambda: (first.append_as_leader(batch(b"b"), 0, NOW), first.flush(), values_in(first))) is (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
    [(where, error)] = manager.failures()
    assert where == "memory"
    assert errno.errorcode[number] in error.text
    assert manager.failures() == []
    for act in (lambda: first.append_as_leader(batch(b"c"), 0, NOW), lambda: manager.get(T0), first.flush):
        assert code_of(act) is ErrorCode.KAFKA_STORAGE_ERROR
    second.append_as_leader(batch(b"d"), 0, NOW)
    assert manager.get_or_create(("new", 0)) is not None
    manager.checkpoint()
    manager.close()
    assert CLEAN_SHUTDOWN in good.names()
    assert CLEAN_SHUTDOWN not in bad.names()


def test_log_that_may_be_on_failed_disk_is_not_created_anew() -> None:
    """It would lead with nothing, and the others would cut off what is committed."""
    bad, good = memory_directory(), memory_directory()
    broker = Broker(bad, good)
    broker.manager.get_or_create(T0).append_as_leader(batch(b"a"), 0, NOW)
    broker.manager.close()
    bad.kill()
    good.kill()
    bad.fail("read", number=errno.EIO)
    manager = broker.start()
    assert [where for where, _ in manager.failures()] == ["memory"]
    with pytest.raises(StorageFailure, match="t-0 may be in a failed directory"):
        manager.get_or_create(T0, begins=False)
    assert manager.get(T0) is None
    assert manager.get_or_create(DASHED, begins=True).end_offset == 0, "a new topic's"
    assert manager.get_or_create(DASHED, begins=False).end_offset == 0, "that is there already"


def test_unusable_directory_leaves_others_in_use(tmp_path: Path) -> None:
    """Kafka starts with those that can be used. Where another process has one it is a mistake, and nothing starts."""
    paths = [str(tmp_path / name) for name in ("one", "two")]

    def opened() -> LogManager:
        return LogManager.open(paths, lambda topic: LogConfig())

    manager = opened()
    manager.load(1, "cluster")
    held = (T0, DASHED)
    for where in held:
        manager.get_or_create(where)
    by_path = {each.files.where: [*each.logs] for each in manager.directories}
    with pytest.raises(StorageFailure, match="in use by another broker"):
        opened()
    manager.close()
    for path in paths:
        (Path(path) / LOCK).unlink()
        (Path(path) / LOCK).mkdir()
        if path == paths[0]:
            manager = opened()
            manager.load(1, "cluster")
            assert [where for where, _ in manager.failures()] == [path]
            assert [where for where in held if manager.get(where) is not None] == by_path[paths[1]]
            for where in by_path[path]:
                with pytest.raises(StorageFailure, match=f"cannot lock {path}/.lock: Is a directory"):
                    manager.get_or_create(where, begins=False)
            assert manager.get_or_create(("new", 0)).end_offset == 0
            manager.close()
    with pytest.raises(StorageFailure, match=r"one/\.lock.*; .*two/\.lock"):
        opened()


def test_full_disk_fails_directory() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    broker.disks[0].capacity = broker.disks[0].used() + 1000
    written = 0
    with pytest.raises(KafkaError, match="free some space"):
        while True:
            log.append_as_leader(batch(b"x" * 50), 0, NOW)
            written += 1
    broker.disks[0].capacity = None
    assert broker.kill().get_or_create(T0).end_offset == written


def test_retention_makes_room_before_first_write() -> None:
    """Somebody has shortened the retention of a topic meanwhile. What is set for another one is not known yet."""
    disk = memory_directory()
    broker = Broker(disk, segment_bytes="200")
    for where in (T0, DASHED):
        log = broker.manager.get_or_create(where)
        for _ in range(10):
            log.append_as_leader(batch(b"x" * 60), 0, NOW)
    broker.manager.checkpoint_high_watermarks({T0: 8, DASHED: 10})
    disk.capacity = disk.used() + 100
    broker.config = LogConfig.of({"segment.bytes": "200", "retention.bytes": "200"})
    manager = broker.kill()
    assert manager.topics_short_of_room() == {"t", "a-b.c_d"}
    assert manager.make_room(NOW, {"t"}) == 8
    assert not any(name.endswith(".deleted") for name in disk.names())
    log = manager.get_or_create(T0)
    assert (log.start_offset, log.end_offset) == (8, 10)
    log.append_as_leader(batch(b"y" * 60), 0, NOW)
    manager.checkpoint()
    assert manager.get_or_create(DASHED).start_offset == 0
    disk.capacity = None
    assert manager.topics_short_of_room() == set()
    assert manager.make_room(NOW, {"t", "a-b.c_d"}) == 0


def test_damaged_log_leaves_others_in_use() -> None:
    broker = Broker()
    for partition in (T0, DASHED):
        broker.manager.get_or_create(partition).append_as_leader(batch(b"abc", b"def"), 0, NOW)
    broker.manager.close()
    broker.disks[0].flip("t-0/00000000000000000000.log", 70)
    again = broker.start()
    assert sorted(again.logs) == [DASHED]
    assert code_of(lambda: again.get(T0)) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="durable up to offset 2"):
        again.get_or_create(T0)
    again.delete(T0, NOW)
    assert again.get_or_create(T0).end_offset == 0


def test_missing_folder_of_durable_log_is_reported() -> None:
    broker = Broker()
    for partition in (T0, DASHED):
        broker.manager.get_or_create(partition).append_as_leader(batch(b"abc", b"def"), 0, NOW)
    broker.manager.close()
    broker.disks[0].delete_folder("t-0")
    again = broker.start()
    assert sorted(again.logs) == [DASHED]
    assert [note for note in again.notes if "t-0 is missing, although its log was durable up to offset 2" in note]


def test_log_that_reader_finds_damaged_is_not_served() -> None:
    """Or its broker would lead it again as soon as it is told to, to no good."""
    broker = Broker()
    broker.config = LogConfig.of({"segment.bytes": "200"})
    log = broker.manager.get_or_create(T0)
    for n in range(6):
        log.append_as_leader(batch(b"%d" % n * 50), 0, NOW)
    broker.manager.get_or_create(DASHED)
    broker.disks[0].flip(log.segments[1].log_path, 16)  # the magic of its first batch
    assert broker.manager.damaged == {}
    assert code_of(lambda: log.read(0, 150, 6)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert list(broker.manager.damaged) == [T0]
    assert code_of(lambda: broker.manager.get_or_create(T0)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.manager.get(DASHED) is not None
    broker.manager.delete(T0, NOW)
    assert broker.manager.get_or_create(T0).end_offset == 0


def test_find_corruption_verifies_checksums() -> None:
    """An ordinary read computes no checksums."""
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    for n in range(3):
        log.append_as_leader(batch(b"%d" % n * 50), 0, NOW)
    assert log.find_corruption(log.read(0, 1000, 3)) is None
    broker.disks[0].flip(log.segments[0].log_path, log.size - 1)
    assert log.find_corruption(log.read(0, 10, 3)) is None
    wrong = log.find_corruption(log.read(0, 1000, 3))
    assert wrong is not None
    assert "the batch at offset 2 has the checksum" in wrong
    assert broker.manager.damaged == {}


def test_offline_log_is_not_used_until_restart_which_recovers_it() -> None:
    broker = Broker(flush_messages="100")
    log = broker.manager.get_or_create(T0, topic_id=bytes(range(16)))
    broker.manager.get_or_create(DASHED)
    log.append_as_leader(of_producer(7, 0, b"a"), 0, NOW)
    log.flush()
    log.append_as_leader(of_producer(7, 1, b"b"), 0, NOW)
    log.producers.remove_expired(1 << 60, 0)  # half changed: the record is there, its producer is not
    broker.manager.take_offline(T0, "a write ended half way")
    assert list(broker.manager.logs) == [DASHED]
    assert broker.manager.damaged[T0].text == "offline until the broker restarts: a write ended half way"
    for act in (log.flush, lambda: broker.manager.get(T0), lambda: broker.manager.get_or_create(T0)):
        assert code_of(act) is ErrorCode.KAFKA_STORAGE_ERROR
    broker.manager.take_offline(T0, "once more")
    broker.manager.checkpoint()
    broker.manager.close()
    assert CLEAN_SHUTDOWN not in broker.disks[0].names()
    again = broker.start()
    log = again.get_or_create(T0)
    assert (again.damaged, values_in(log), len(log.producers)) == ({}, [b"a", b"b"], 1)
    assert [each.last_sequence for each in log.active_producers()] == [1]


def test_offline_log_can_be_deleted() -> None:
    broker = Broker()
    broker.manager.get_or_create(T0).append_as_leader(batch(b"a"), 0, NOW)
    broker.manager.take_offline(T0, "a write ended half way")
    broker.manager.delete(T0, NOW)
    assert broker.manager.get_or_create(T0).end_offset == 0


def test_topic_id_is_not_written_for_damaged_log() -> None:
    broker = Broker()
    broker.manager.get_or_create(T0)
    broker.manager.take_offline(T0, "a write ended half way")
    broker.manager.keep_topic_id(T0, bytes(range(16)))
    assert broker.manager.topic_id(T0) is None


def test_changed_settings_apply_at_once() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    broker.config = LogConfig.of({"max.message.bytes": "10"})
    broker.manager.reconfigure("t")
    assert code_of(lambda: log.append_as_leader(batch(b"x"), 0, NOW)) is ErrorCode.MESSAGE_TOO_LARGE


def test_idle_producers_expire() -> None:
    broker = Broker()
    log = broker.manager.get_or_create(T0)
    log.append_as_leader(of_producer(7, 0, b"a"), 0, NOW)
    broker.manager.expire_producers(0)
    broker.manager.expire_producers(86_400_000)
    assert len(log.producers) == 1
    broker.manager.expire_producers(86_400_001)
    assert len(log.producers) == 0


def test_failed_log_does_not_stop_retention_of_others() -> None:
    disks = memory_directory(), memory_directory()
    broker = Broker(*disks, segment_bytes="150", retention_ms="1000")
    first, second = (broker.manager.get_or_create(("t", number)) for number in (0, 1))
    for log in (first, second):
        for _ in range(3):
            log.append_as_leader(batch(b"x" * 60), 0, NOW)
    disks[0].fail("sync_dir", 0, errno.EIO)
    with pytest.raises(StorageFailure):
        broker.manager.delete_old_segments(NOW + 1001, {("t", 0): 3, ("t", 1): 3})
    assert (first.start_offset, second.start_offset) == (0, 3)


def test_log_truncated_during_retention_waits_for_next_round() -> None:
    """What was known to be committed of it may not be there any more."""
    broker = Broker(segment_bytes="150", retention_ms="1000")
    first, second = (broker.manager.get_or_create(("t", number)) for number in (0, 1))
    for log in (first, second):
        for _ in range(3):
            log.append_as_leader(batch(b"x" * 60), 0, NOW)
    turns = broker.manager.delete_old_segments_of_each(NOW + 1001, {("t", 0): 3, ("t", 1): 3})
    assert next(turns) == 3
    second.truncate_to(1)
    assert list(turns) == []
    assert (first.start_offset, second.start_offset) == (3, 0)
    assert broker.manager.delete_old_segments(NOW + 1001, {("t", 1): 1}) == 1


def test_damaged_checkpoints_cause_full_recovery() -> None:
    broker = Broker()
    broker.manager.get_or_create(T0).append_as_leader(batch(b"a"), 2, NOW)
    broker.manager.close()
    broker.disks[0].put(RECOVERY_POINTS, b"0\n7\nt 0 1\n")
    broker.disks[0].put(f"t-0/{EPOCHS}", b"0\n1\nx y\n")
    again = broker.start()
    assert "7 entries" in "".join(again.notes)
    log = again.get_or_create(T0)
    assert (values_in(log), log.latest_epoch) == ([b"a"], 2)


@pytest.mark.parametrize("in_order", [True, False])
def test_damaged_recovery_points_after_clean_shutdown_cost_no_closed_segment(in_order: bool) -> None:
    """Else a damaged byte anywhere would be taken for a write that did not come to its end, and end the log."""
    broker = Broker(segment_bytes="150")
    log = broker.manager.get_or_create(T0)
    for value in (b"a" * 60, b"b" * 60, b"c" * 60):
        log.append_as_leader(batch(value), 0, NOW)
    assert len(log.segments) == 3
    log.flush()
    if in_order:
        broker.manager.close()
    disk = broker.disks[0]
    disk.kill()
    disk.put(RECOVERY_POINTS, b"\x00 no checkpoint")
    damaged = f"t-0/{log.segments[1].log_path.rpartition('/')[2]}"
    disk.put(damaged, disk.get(damaged)[:-20])
    again = broker.start()
    [said] = [note for note in again.notes if RECOVERY_POINTS in note]
    found = again.get_or_create(T0)
    if in_order:
        assert "all but the last segment of each log is considered durable" in said
        assert found.end_offset == 3
    else:
        assert "each log is cut at its first damaged batch" in said
        assert found.end_offset == 1


def test_open_files_are_bounded() -> None:
    broker = Broker(segment_bytes="150", index_interval_bytes="0")
    logs = [broker.manager.get_or_create(("t", number)) for number in range(6)]
    for _ in range(8):
        for log in logs:
            log.append_as_leader(batch(b"x" * 60), 0, NOW)
    for log in logs:
        assert len(values_in(log)) == 8
    assert len(broker.manager.directories[0].handles) <= 4
    broker.manager.unload()
    assert sum(segment.loaded_bytes for log in logs for segment in log.segments[:-1]) == 0
    assert len(values_in(logs[0])) == 8


def test_rotten_log_does_not_stop_cleaning_of_others() -> None:
    """And its batch is not packed anew: the new checksum would be right."""
    broker = Broker(cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    rotten, sound = (broker.manager.get_or_create((name, 0)) for name in "ab")
    for log in (rotten, sound):
        for value in (b"one", b"two", b"three"):
            log.append_as_leader(batch_of([(b"key", value)], NOW), 0, NOW)
        log.roll()
        log.flush()
    path = rotten.segments[0].log_path
    broker.disks[0].flip(path, broker.disks[0].get(path).index(b"three"), 0x01)
    before = broker.disks[0].get(path)
    marks = {("a", 0): 3, ("b", 0): 3}
    found = broker.manager.clean_one(NOW, marks)
    assert found is not None
    assert found[0] == ("b", 0)
    assert broker.manager.clean_one(NOW, marks) is None
    assert values_in(sound) == [b"three"]
    assert list(broker.manager.uncleanable) == [("a", 0)]
    assert "a-0" in broker.manager.uncleanable["a", 0].text
    assert broker.disks[0].get(path) == before
