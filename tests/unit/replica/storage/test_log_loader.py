"""Recovery: a log ends where it breaks off, and is damaged if that is before the recovery point."""

from __future__ import annotations

import pytest

from replica.core.partitions.log_config import LogConfig
from replica.storage.files import DamagedLog, Handles
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import walk
from tests.unit.replica.storage.logs import NOW, of_producer, records_in, values_in
from zab.storage.memory_disk import MemoryDisk

CONFIG = LogConfig.of({"segment.bytes": "500", "index.interval.bytes": "150"})
LAST = "t-0/00000000000000000000.log"


def opened(
    files: MemoryDisk, point: int = 0, start: int = 0, config: LogConfig = CONFIG, notes: list[str] | None = None
) -> UnifiedLog:
    return open_log("t-0", config, Handles(files), "t-0", KnownOffsets(point, start), notes=notes)


def fresh(config: LogConfig = CONFIG) -> tuple[MemoryDisk, UnifiedLog]:
    files = memory_directory()
    files.make_folder("t-0")
    return files, opened(files, config=config)


def filled(count: int = 20, config: LogConfig = CONFIG) -> tuple[MemoryDisk, UnifiedLog]:
    files, log = fresh(config)
    for n in range(count):
        log.append_as_leader(of_producer(7, n, b"value %d" % n, time=NOW + n), n // 8, NOW)
    return files, log


def test_log_cut_at_every_byte_of_last_batches() -> None:
    files, _ = filled(6)
    data = files.get(LAST)
    ends = [at + header.size for at, header in walk(data)]
    for size in range(ends[1], len(data) + 1):
        torn = files.clone()
        torn.put(LAST, data[:size])
        notes: list[str] = []
        again = opened(torn, 2, notes=notes)
        whole = sum(end <= size for end in ends)
        assert again.end_offset == whole
        assert values_in(again) == [b"value %d" % n for n in range(whole)]
        assert bool(notes) == (size not in ends)
        assert again.append_as_leader(of_producer(7, whole - 1, b"value %d" % (whole - 1)), 1, NOW).duplicate
        assert again.append_as_leader(of_producer(7, whole, b"new"), 1, NOW).first == whole


def test_every_flipped_byte_of_last_batch() -> None:
    files, _ = filled(4)
    data = files.get(LAST)
    last = [at for at, _ in walk(data)][-1]
    for at in range(last, len(data)):
        rotten = files.clone()
        rotten.flip(LAST, at, 0x40)
        again = opened(rotten)
        unseen = (*range(last + 4, last + 8), *range(last + 12, last + 16))  # offset and epoch: not under the checksum
        assert (again.end_offset > 3) == (at in unseen)


def test_zeros_at_the_end_are_no_batches() -> None:
    """What some file systems leave where the length was durable and the data was not."""
    files, _ = filled(3)
    files.put(LAST, files.get(LAST) + bytes(5000))
    assert opened(files).end_offset == 3


@pytest.mark.parametrize("point", [20, 15])
def test_missing_durable_records_are_damage(point: int) -> None:
    files, log = filled(20)
    [first, *_, last] = [segment.log_path for segment in log.segments]
    cut = files.clone()
    cut.put(last, files.get(last)[:-10])
    if point == 20:
        with pytest.raises(DamagedLog, match="durable up to offset 20"):
            opened(cut, point)
    else:
        assert opened(cut, point).end_offset == 19
    lost = files.clone()
    lost.delete(last)
    with pytest.raises(DamagedLog, match="durable"):
        opened(lost, 20)
    for path in files.names():
        files.delete(path)
    with pytest.raises(DamagedLog, match="has no segment"):
        opened(files, point)
    assert first != last


def test_reader_finds_damaged_segment_in_the_middle() -> None:
    files, log = filled(20)
    middle = log.segments[1]
    assert len(log.segments) > 2
    files.flip(middle.log_path, 16)  # the magic of its first batch
    again = opened(files, 20)
    assert again.end_offset == 20
    with pytest.raises(DamagedLog, match=r"is damaged at byte 0.*remove this partition's directory"):
        records_in(again)
    notes: list[str] = []
    harmed = opened(files, 0, notes=notes)
    assert harmed.end_offset == middle.base, "nothing of it was durable: the log ends there"
    assert "later segments" in notes[0]


def test_each_start_reports_missing_segment_in_the_middle() -> None:
    """Its indexes are there. At either end of a log a deletion may have been broken off."""
    files, log = filled(20)
    log.flush()
    first, middle, *_ = [segment.log_path for segment in log.segments]
    begun = files.clone()
    files.delete(middle)
    for _ in range(2):
        with pytest.raises(DamagedLog, match=r"6\.log is missing, although it was durable"):
            opened(files, 20)
    assert opened(files, 0).end_offset == log.segments[1].base, "nothing behind it was durable: the log ends there"
    begun.delete(first)
    notes: list[str] = []
    again = opened(begun, 20, notes=notes)
    assert (again.start_offset, again.end_offset) == (log.segments[1].base, 20)
    assert notes[0] == "00000000000000000000.index belongs to no segment and was deleted"


def test_foreign_file_is_ignored() -> None:
    files, log = filled(20)
    for name in ("backup.log", "old.index", "notes.txt", "backup.log.swap", "\u00b2.log"):
        files.put(f"t-0/{name}", b"of somebody else")
    files.put(log.segments[1].log_path + ".swap", files.get(log.segments[1].log_path))
    again = opened(files, 20)
    assert len(records_in(again)) == 20
    assert {"backup.log", "old.index", "notes.txt", "backup.log.swap"} <= files.stats("t-0").keys()


def test_empty_swap_file_is_deleted() -> None:
    files, log = filled(20)
    files.put(log.segments[1].log_path + ".swap", b"")
    notes: list[str] = []
    again = opened(files, 20, notes=notes)
    assert again.end_offset == 20
    assert len(records_in(again)) == 20
    assert notes == [f"{log.segments[1].base:020}.log.swap is empty and was deleted"]


@pytest.mark.parametrize("harm", ["lose", "empty", "odd", "garbage", "beyond"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("point", [0, 20])
def test_harmed_index_is_rebuilt(harm: str, suffix: str, point: int) -> None:
    files, log = filled(20)
    expected = records_in(log)
    log.close()
    for segment in log.segments:
        path = segment.log_path.replace(".log", suffix)
        match harm:
            case "lose":
                files.delete(path)
            case "empty":
                files.put(path, b"")
            case "odd":
                files.put(path, files.get(path) + b"x")
            case "garbage":
                files.put(path, bytes(range(255, 231, -1)))
            case _:
                files.put(path, files.get(path) + bytes.fromhex("7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff"))
    again = opened(files, point)
    assert records_in(again) == expected
    for each in expected:
        found = again.find_timestamp(each.timestamp)
        assert found is not None
        assert found.offset == each.offset
        assert values_in(again, each.offset)[0] == each.value
    again.flush()


def test_start_reads_only_behind_recovery_point() -> None:
    config = LogConfig.of({"segment.bytes": "100000", "index.interval.bytes": "300"})
    files, log = filled(200, config)
    log.flush()
    files.counts.clear()
    opened(files, 200, config=config)
    few = files.counts["read"]
    data = files.get(LAST)
    harmed = files.clone()
    harmed.flip(LAST, len(data) // 2)
    assert opened(harmed, 200, config=config).end_offset == 200
    assert opened(harmed, 0, config=config).end_offset < 200
    assert few < 20


def test_lost_epochs_are_read_from_batches() -> None:
    """Epoch 0 is one like any other."""
    for point in (0, 20):
        files, log = filled(20)
        log.flush()
        expected = log.epochs.entries
        assert expected[0] == (0, 0)
        files.delete("t-0/leader-epoch-checkpoint")
        assert opened(files, point).epochs.entries == expected


def test_epoch_without_records_survives_restart() -> None:
    files, log = filled(3)
    log.assign_epoch(9, 3)
    log.abandon()
    assert opened(files).latest_epoch == 9


def test_continued_epoch_keeps_its_start_after_lost_power() -> None:
    """The file of epochs is from before, when another one had just begun."""
    files, log = filled(10)
    began = log.epochs.entries
    log.assign_epoch(9, 10)
    kept = files.get("t-0/leader-epoch-checkpoint")
    log.append_as_follower(filled(12)[1].read(10, 1 << 20, 12).records)
    assert log.epochs.entries == began == [(0, 0), (1, 8)]
    files.put("t-0/leader-epoch-checkpoint", kept)
    assert opened(files, 10).epochs.entries == began


def test_epochs_of_restored_records_are_restored() -> None:
    """They had been deleted, and a loss of power took what said so, but not the file of epochs."""
    files, log = filled(20)
    began = log.epochs.entries
    log.increment_start_offset(10)
    assert log.epochs.entries == began[1:]
    log.abandon()
    assert opened(files, 20, start=10).epochs.entries == began[1:]
    again = opened(files, 20)
    assert (again.start_offset, again.epochs.entries) == (0, began)


def test_start_offset_beyond_end_deletes_all_records() -> None:
    files, _ = filled(3)
    notes: list[str] = []
    again = opened(files, 0, start=50, notes=notes)
    assert (again.start_offset, again.end_offset) == (50, 50)
    assert "all records are deleted" in notes[-1]


class Told:
    """What a log says of itself before it is less, or begins earlier."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.begins: list[int] = []

    def lower_end(self, offset: int) -> None:
        self.ends.append(offset)

    def lower_start(self, offset: int) -> None:
        self.begins.append(offset)


def test_checkpoints_are_lowered_before_truncation() -> None:
    told = Told()
    files, log = filled(10)
    log.flush()
    log._checkpoints = told
    log.truncate_to(7)
    assert (told.ends, log.recovery_point, log.flush()) == ([7], 7, 7)
    log.truncate_fully_and_start_at(30)
    assert (told.ends, told.begins) == ([7, 0], [])
    log.truncate_fully_and_start_at(20)
    assert (told.ends, told.begins) == ([7, 0, 0], [20])
    assert opened(files, 0).end_offset == 20


def test_leftovers_of_deletion_and_cleaning_are_removed() -> None:
    files, log = filled(20)
    expected = values_in(log)
    for name in ("00000000000000000099.log.deleted", "00000000000000000000.log.cleaned", "x.snapshot.tmp"):
        files.put(f"t-0/{name}", b"rest")
    files.put("t-0/00000000000000000077.index", bytes(8))
    assert values_in(opened(files)) == expected
    assert not [path for path in files.names() if "77" in path or "99" in path or path.endswith((".cleaned", ".tmp"))]
