"""Compaction: the last record of each key stays at its offset, with everything else that readers rely on."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.log_policy import needs_cleaning
from replica.core.partitions.partition_log import AppendOrigin
from replica.storage.files import Handles
from replica.storage.log_cleaner import Cleaned, clean, examine_log
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.storage.unified_log import UnifiedLog
from replica.wire.batch import TRANSACTIONAL, walk
from replica.wire.records import ControlType, Record, batch_of, build, control_batch
from tests.unit.replica.storage.logs import ALL, NOW, records_in

DAY = 86_400_000


class Topic:
    def __init__(self, **settings: str) -> None:
        keys = {"cleanup.policy": "compact", "segment.bytes": "300", "index.interval.bytes": "0"}
        self.config = LogConfig.of(keys | {key.replace("_", "."): value for key, value in settings.items()})
        self.files = memory_directory()
        self.files.make_folder("t-0")
        self.cleaned_upto = 0
        self.log = open_log("t-0", self.config, Handles(self.files), "t-0", KnownOffsets())

    def write(self, *pairs: tuple[str, str | None], time: int = NOW) -> None:
        rows = [(key.encode(), None if value is None else value.encode()) for key, value in pairs]
        self.log.append_as_leader(batch_of(rows, time), 0, NOW)

    def clean(self, now: int = NOW, **more: int) -> Cleaned:
        self.log.roll()
        self.log.flush()
        found = examine_log(self.log, self.cleaned_upto, now, self.log.end_offset)
        done = clean(self.log, found, now, **more)
        self.cleaned_upto = done.upto
        return done

    def reopened(self) -> UnifiedLog:
        self.files.kill()
        return open_log("t-0", self.config, Handles(self.files), "t-0", KnownOffsets(self.log.recovery_point))

    @property
    def rows(self) -> list[tuple[int, str, str | None]]:
        return rows_of(self.log)


def rows_of(log: UnifiedLog) -> list[tuple[int, str, str | None]]:
    return [
        (each.offset, (each.key or b"").decode(), None if each.value is None else each.value.decode())
        for each in records_in(log)
    ]


def test_last_record_of_each_key_keeps_its_offset() -> None:
    topic = Topic()
    topic.write(("a", "1"), ("b", "1"))
    topic.write(("a", "2"))
    topic.write(("c", "1"), ("a", "3"))
    done = topic.clean()
    assert (done.records_before, done.records_after, done.upto) == (5, 3, 5)
    assert done.bytes_after < done.bytes_before
    assert topic.rows == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    topic.write(("b", "2"))
    topic.clean()
    assert topic.rows == [(3, "c", "1"), (4, "a", "3"), (5, "b", "2")]
    rows = topic.rows
    assert rows_of(topic.reopened()) == rows


def test_tombstone_stays_for_delete_retention_ms() -> None:
    topic = Topic(delete_retention_ms="1000")
    topic.write(("a", "1"), ("b", "1"))
    topic.write(("a", None))
    topic.clean(NOW)
    assert topic.rows == [(1, "b", "1"), (2, "a", None)]
    topic.write(("x", "1"))
    topic.clean(NOW + 999)
    assert (2, "a", None) in topic.rows
    topic.write(("x", "2"))
    topic.clean(NOW + 1000)
    assert topic.rows == [(1, "b", "1"), (4, "x", "2")]
    times = {each.offset: each.timestamp for each in records_in(topic.log)}
    assert times == {1: NOW, 4: NOW}, "the horizon takes the place of a time in the header, and no time changes"


def test_end_of_segment_survives_compaction() -> None:
    topic = Topic()
    for _ in range(6):
        topic.write(("a", "x" * 50))
    topic.write(("a", None))
    topic.clean(NOW)
    topic.clean(NOW + 2 * DAY)
    ends = [(each.base, each.end) for each in topic.reopened().segments]
    assert all(one[1] == two[0] for one, two in pairwise(ends))
    assert topic.reopened().end_offset == 7


def test_small_segments_are_merged() -> None:
    topic = Topic()
    for n in range(12):
        topic.write((f"k{n % 2}", "x" * 60))
    before = len(topic.log.segments)
    topic.clean()
    topic.clean()
    assert len(topic.log.segments) < before
    assert topic.rows == [(10, "k0", "x" * 60), (11, "k1", "x" * 60)]
    assert [name for name in topic.files.names() if name.endswith((".cleaned", ".swap"))] == []


def test_young_or_uncommitted_segments_are_not_cleaned() -> None:
    topic = Topic(min_compaction_lag_ms="100")
    topic.write(("a", "1"))
    topic.write(("a", "2"), time=NOW + 50)
    topic.log.roll()
    topic.log.flush()
    assert examine_log(topic.log, 0, NOW + 149, 2).dirty_bytes == 0
    assert examine_log(topic.log, 0, NOW + 150, 2).end_offset == 2
    assert examine_log(topic.log, 0, NOW + 150, 1).dirty_bytes == 0


def test_ratio_and_lag_decide_when_to_clean() -> None:
    topic = Topic(max_compaction_lag_ms="1000")
    topic.write(("a", "1"))
    topic.write(("a", "2"))
    assert not needs_cleaning(topic.config, examine_log(topic.log, 0, NOW, 2))
    topic.log.roll()
    topic.log.flush()
    assert needs_cleaning(topic.config, examine_log(topic.log, 0, NOW, 2))
    topic.clean()
    for n in range(3):
        topic.write((f"k{n}", "x" * 80))
    topic.clean()
    topic.write(("a", "3"))
    topic.log.roll()
    topic.log.flush()
    found = examine_log(topic.log, topic.cleaned_upto, NOW, 9)
    assert 0 < found.dirty_ratio < 0.5
    assert not needs_cleaning(topic.config, found)
    assert needs_cleaning(topic.config, examine_log(topic.log, topic.cleaned_upto, NOW + 1001, 9))


def test_few_keys_in_memory_take_more_rounds() -> None:
    topic = Topic()
    for n in range(9):
        topic.write((f"k{n % 3}", str(n)))
    rounds = 0
    while topic.cleaned_upto < 9:
        topic.clean(keys_max=1)
        rounds += 1
    assert rounds > 3
    assert [value for _, _, value in topic.rows] == ["6", "7", "8"]


def transaction(topic: Topic, producer: int, sequence: int, kind: ControlType, *pairs: tuple[str, str]) -> None:
    records = [Record(n, NOW, key.encode(), value.encode()) for n, (key, value) in enumerate(pairs)]
    batch = build(records, flags=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=sequence)
    topic.log.append_as_leader(batch, 0, NOW)
    topic.log.append_as_leader(control_batch(kind, producer, 0, 1, NOW), 0, NOW, origin=AppendOrigin.COORDINATOR)


def test_transactions() -> None:
    """What was aborted goes; what was committed stays, also when the same producer aborts something later."""
    topic = Topic(delete_retention_ms="1000")
    topic.write(("a", "old"))
    transaction(topic, 7, 0, ControlType.COMMIT, ("b", "kept"))
    transaction(topic, 7, 1, ControlType.ABORT, ("b", "never"), ("c", "never"))
    topic.write(("z", "1"))
    topic.clean(NOW)
    data = [row for row in topic.rows if row[1] in "abcz"]
    assert data == [(0, "a", "old"), (1, "b", "kept"), (6, "z", "1")]
    for round_ in range(2):
        topic.write(("z", str(round_)))
        topic.clean(NOW + 5000 * (round_ + 1))
    transaction(topic, 7, 3, ControlType.ABORT, ("a", "never"))
    topic.write(("z", "9"))
    topic.clean(NOW + 50_000)
    assert (1, "b", "kept") in topic.rows
    kinds = [header.control for _, header in walk(topic.log.read(0, ALL, topic.log.end_offset).records)]
    assert True in kinds


def test_open_transaction_is_not_cleaned() -> None:
    topic = Topic()
    topic.write(("a", "1"))
    records = [Record(0, NOW, b"a", b"2")]
    topic.log.append_as_leader(
        build(records, flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0), 0, NOW
    )
    topic.write(("a", "3"))
    topic.log.roll()
    topic.log.flush()
    assert examine_log(topic.log, 0, NOW, 3).end_offset == 0


def test_last_batch_of_producer_survives_compaction() -> None:
    topic = Topic()
    records = [Record(0, NOW, b"a", b"1")]
    data = build(records, producer_id=7, producer_epoch=0, base_sequence=0)
    topic.log.append_as_leader(data, 0, NOW)
    topic.write(("a", "2"))
    topic.clean()
    assert topic.rows == [(1, "a", "2")]
    for name in [each for each in topic.files.names() if each.endswith(".snapshot")]:
        topic.files.delete(name)
    assert topic.reopened().append_as_leader(data, 0, NOW).duplicate


writes = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from("xyz")), min_size=1, max_size=3), max_size=14
)


@given(writes, st.integers(0, 60), st.integers(0, 20))
@settings(max_examples=120)
def test_crash_anywhere_leaves_old_or_new_segments(
    batches: list[list[tuple[str, str | None]]], nth: int, torn: int
) -> None:
    topic = Topic()
    for each in batches:
        topic.write(*each)
    expected = {key: (offset, value) for offset, key, value in topic.rows}
    topic.log.roll()
    topic.log.flush()
    kinds = ("write", "sync", "rename", "delete", "sync_dir")
    topic.files.fail(kinds[nth % 5], nth // 5)
    try:
        clean(topic.log, examine_log(topic.log, 0, NOW, topic.log.end_offset), NOW)
    except Exception:
        assert topic.files.errors.failed
    topic.files.crash(Random(torn).randrange if torn else None)
    topic.files.forgive()
    log = open_log("t-0", topic.config, Handles(topic.files), "t-0", KnownOffsets(topic.log.recovery_point))
    assert {key: (offset, value) for offset, key, value in rows_of(log)} == expected
    assert log.end_offset == topic.log.end_offset
