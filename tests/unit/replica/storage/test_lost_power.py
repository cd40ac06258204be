"""Lost power while segments come and go: the disk leaves any combination of files."""

from __future__ import annotations

from random import Random

import pytest

from replica.core.partitions.log_config import LogConfig
from replica.storage.files import StorageFailure
from replica.storage.log_segment import LOG
from replica.storage.unified_log import UnifiedLog
from tests.unit.replica.storage.logs import NOW, numbered, of_producer, records_in
from tests.unit.replica.storage.test_log_loader import Told, filled, fresh, opened
from zab.storage.memory_disk import MemoryDisk

SEEDS = range(40)
SHORT = LogConfig.of({"segment.bytes": "500", "retention.bytes": "0", "file.delete.delay.ms": "0"})


def torn(files: MemoryDisk, seed: int) -> None:
    files.crash(Random(seed).randrange)
    files.forgive()


def names(files: MemoryDisk) -> list[str]:
    return [path for path in files.names() if path.endswith(LOG)]


def add(log: UnifiedLog, first: int, count: int) -> None:
    for n in range(first, first + count):
        log.append_as_leader(of_producer(7, n, b"value %d" % n, time=NOW + n), 2, NOW)


def is_a_run(log: UnifiedLog) -> bool:
    offsets = [record.offset for record in records_in(log)]
    return offsets == list(range(log.start_offset, log.end_offset))


def test_lost_power_takes_segments_from_the_end() -> None:
    """Nobody has flushed. A log without its first segment would be taken for one that begins there."""
    lost = 0
    for seed in SEEDS:
        files, _ = filled(40)
        made = names(files)
        torn(files, seed)
        left = names(files)
        assert left == made[: len(left)]
        lost += left != made
        again = opened(files)
        assert again.start_offset == 0
        assert is_a_run(again)
    assert lost, "no segment was lost: this has shown nothing"


def test_records_behind_a_failed_sync_are_durable_after_the_next_flush() -> None:
    """The failed sync leaves them in the system's cache, and a later sync does not write them by itself."""
    files, log = filled(8, LogConfig())
    files.fail("sync")
    with pytest.raises(StorageFailure):
        log.flush()
    log.abandon()
    files.kill()
    again = opened(files, config=LogConfig())
    again.flush()
    files.crash()
    assert opened(files, again.recovery_point, config=LogConfig()).end_offset == again.recovery_point == 8


def test_restart_remembers_that_names_are_not_durable() -> None:
    for seed in SEEDS:
        files, log = filled(8)
        log.abandon()
        files.kill()
        add(opened(files), 8, 30)
        torn(files, seed)
        assert opened(files).start_offset == 0


@pytest.mark.parametrize("start", [3, 100])
def test_restarted_log_begins_at_its_offset(start: int) -> None:
    """Before that or behind all that it held; as soon as that is durable it holds nothing older."""
    for seed in SEEDS:
        files, log = filled(40)
        log.truncate_fully_and_start_at(start)
        add(log, 40, 30)
        made = names(files)
        torn(files, seed)
        assert names(files) == made[: max(1, len(names(files)))]
        again = opened(files)
        assert again.start_offset == start
        assert is_a_run(again)


def test_crash_in_full_truncation_leaves_beginning_or_nothing() -> None:
    """The power goes at each of the calls in turn."""
    nth, seen = 0, set()
    while True:
        files, log = filled(40)
        log.flush()
        told = log._checkpoints = Told()
        for kind in ("delete", "sync_dir", "create"):
            files.fail(kind, nth)
        try:
            log.truncate_fully_and_start_at(100)
        except StorageFailure:
            pass
        else:
            break
        torn(files, nth)
        again = opened(files, point=told.ends[-1])
        assert again.start_offset in (0, 100)
        assert is_a_run(again)
        seen.add(again.end_offset)
        nth += 1
    assert len(seen) > 2


def test_retention_keeps_later_durable_segments() -> None:
    """And when nothing yet has written down that it is durable."""
    went = 0
    for seed in SEEDS:
        files, log = fresh(SHORT)
        add(log, 0, 40)
        log.flush()
        add(log, 40, 20)
        went += log.delete_old_segments(NOW + 10, high_watermark=20 + seed)
        torn(files, seed)
        again = opened(files, config=SHORT)
        assert is_a_run(again)
        assert again.start_offset <= 20 + seed
        assert again.end_offset >= 40
    assert went > len(SEEDS)


def test_log_without_segments_left_is_empty_and_not_damaged() -> None:
    for seed in SEEDS:
        files, log = fresh(SHORT)
        add(log, 0, 12)
        point = log.flush()
        log.delete_old_segments(NOW + 10, high_watermark=12)
        torn(files, seed)
        assert opened(files, point=point, config=SHORT).end_offset == 12


def in_files(log: UnifiedLog) -> list[tuple[int, int]]:
    """Offset and epoch of each batch, as the segments have them one after the other."""
    return [(header.base_offset, header.leader_epoch) for segment in log.segments for _, header in segment.headers()]


@pytest.mark.parametrize("durable", [3, 0], ids=["the rest was durable", "nothing was durable"])
@pytest.mark.parametrize("tells", [True, False], ids=["and flushed again", "and never flushed"])
def test_truncated_records_do_not_come_back_before_their_successors(tells: bool, durable: int) -> None:
    """A follower heard of a new leader. The new records may be of the size of the old ones, or begin a segment."""
    for seed in SEEDS:
        files, log = fresh(SHORT)
        for n in range(5):
            log.append_as_follower(numbered(n, 1, b"old %d" % n))
            if n + 1 == durable:
                log.flush()
        log.truncate_to(3)
        size = 1 + seed % 5 * 100
        for n in range(3, 9):
            log.append_as_follower(numbered(n, 2, b"x" * size))
            if tells and n == 6:
                log.flush()
        point = log.recovery_point
        torn(files, seed)
        found = in_files(opened(files, point=point))
        assert [offset for offset, _ in found] == list(range(len(found)))
        assert [epoch for _, epoch in found] == sorted(epoch for _, epoch in found)


def test_first_of_two_flushes_to_end_includes_the_other() -> None:
    """One thread flushes what replicas wait for, another one what has waited for long enough: the names of new
    segments were left to whoever had begun first, and what stood in them counted before they were durable.
    """
    files, log = filled(8)
    log.flush()
    add(log, 8, 30)
    first, second = log.begin_flush(), log.begin_flush()
    assert first is not None
    assert second is not None
    assert log.write_out(second)
    log.finish_flush(second)
    assert log.recovery_point == 38
    files.crash()
    assert opened(files, point=38).end_offset == 38


def test_records_truncated_during_flush_are_not_durable() -> None:
    files, log = filled(8)
    log.flush()
    add(log, 8, 4)
    begun = log.begin_flush()
    assert begun is not None
    assert log.write_out(begun)
    log.truncate_to(9)
    add(log, 9, 6)
    log.finish_flush(begun)
    assert log.recovery_point <= 9
    files.crash()
    opened(files, point=log.recovery_point)
