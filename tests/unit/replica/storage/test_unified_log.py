"""The port `PartitionLog`: in files, and in the list that other tests use as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from replica.core.errors import ErrorCode, KafkaError, OffsetOutOfRange
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition_log import (
    AppendOrigin,
    EpochEndOffset,
    LogAppendInfo,
    PartitionLog,
    TimestampAndOffset,
)
from replica.storage.files import Handles
from replica.storage.log_loader import KnownOffsets, open_log
from replica.storage.memory_directory import memory_directory
from replica.wire.batch import parse_header, walk
from replica.wire.compression import Codec
from replica.wire.records import ControlType, control_batch
from tests.unit.replica.storage.logs import ALL, NOW, batch, list_log, numbered, of_producer, records_in, values_in

Make: TypeAlias = Callable[..., PartitionLog]


@pytest.fixture(params=["list", "files", "small files"])
def make(request: pytest.FixtureRequest) -> Make:
    def made(**settings: str) -> PartitionLog:
        small = {"segment_bytes": "200", "index_interval_bytes": "0"} if request.param == "small files" else {}
        config = LogConfig.of({key.replace("_", "."): value for key, value in (small | settings).items()})
        if request.param == "list":
            return list_log(config=config)
        files = memory_directory()
        files.make_folder("t-0")
        return open_log("t-0", config, Handles(files), "t-0", KnownOffsets())

    return made


def code_of(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


def test_leader_assigns_offsets_and_epoch(make: Make) -> None:
    log = make()
    assert log.append_as_leader(batch(b"a", b"b"), 3, NOW) == LogAppendInfo(0, 1, -1, NOW, 1)
    assert log.append_as_leader(batch(b"c", time=NOW + 5), 3, NOW) == LogAppendInfo(2, 2, -1, NOW + 5, 2)
    headers = [header for _, header in walk(log.read(0, ALL, 3).records)]
    assert [(each.base_offset, each.leader_epoch) for each in headers] == [(0, 3), (2, 3)]
    assert [(each.offset, each.value) for each in records_in(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (log.start_offset, log.end_offset, log.latest_epoch) == (0, 3, 3)


@pytest.mark.parametrize("segment_bytes", ["150", "1000000"])
def test_batches_with_gaps_that_no_segment_spans(segment_bytes: str) -> None:
    files, config = memory_directory(), LogConfig.of({"segment.bytes": segment_bytes, "index.interval.bytes": "0"})
    files.make_folder("t-0")
    log = open_log("t-0", config, Handles(files), "t-0", KnownOffsets())
    far = 1 << 31
    log.append_as_follower(numbered(far + 5, 0, b"a") + numbered(far + 6, 0, b"b"))
    log.append_as_follower(
        numbered(far + 10, 0, b"c")
        + numbered(far + 20, 0, b"d")
        + numbered(3 * far, 0, b"e")
        + numbered(5 * far, 0, b"f")
    )
    assert len({segment.base for segment in log.segments}) == len(list(log.segments))
    log.close()
    log = open_log("t-0", config, Handles(files), "t-0", KnownOffsets(log.end_offset))
    assert [record.value for record in records_in(log)] == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_refused_batch_changes_nothing(make: Make) -> None:
    log = make()
    assert code_of(lambda: log.append_as_leader(batch(b"a")[:-1], 3, NOW)) is ErrorCode.CORRUPT_MESSAGE
    assert (log.end_offset, log.latest_epoch) == (0, -1)


def test_read_ends_with_whole_batch(make: Make) -> None:
    log = make()
    for value in (b"a", b"b", b"c", b"d"):
        log.append_as_leader(batch(value, value), 0, NOW)
    size = parse_header(log.read(0, 1, 8).records).size
    assert len(log.read(0, 2 * size, 8).records) == 2 * size
    assert len(log.read(0, 3 * size - 1, 8).records) == 2 * size
    assert len(log.read(0, 1, 8).records) == size, "the first batch comes whole"
    assert log.read(0, size - 1, 8, at_least_one=False).records == b""
    assert len(log.read(0, ALL, 4).records) == 2 * size
    assert log.read(4, ALL, 4).records == b""
    assert log.read(8, ALL, 8).records == b""
    inside = log.read(5, ALL, 8)
    assert parse_header(inside.records).base_offset == 4, "the batch that holds the offset"
    for offset in (-1, 9):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, ALL, 8)


def test_follower_keeps_offsets_of_leader(make: Make) -> None:
    log = make()
    assert log.append_as_follower(numbered(0, 1, b"a") + numbered(1, 4, b"b", b"c")) == LogAppendInfo(0, 2, -1, NOW, 0)
    assert log.append_as_follower(numbered(9, 4, b"d")[:-1]) == LogAppendInfo(3, 2)
    log.append_as_follower(numbered(9, 4, b"d"))
    assert [(each.offset, each.value) for each in records_in(log)] == [(0, b"a"), (1, b"b"), (2, b"c"), (9, b"d")]
    assert (log.latest_epoch, log.end_offset_for_epoch(1), log.epoch_for_offset(0), log.epoch_for_offset(2)) == (
        4,
        EpochEndOffset(1, 1),
        1,
        4,
    )
    assert code_of(lambda: log.append_as_follower(numbered(9, 4, b"e"))) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(lambda: log.append_as_follower(numbered(10, -1, b"e"))) is ErrorCode.CORRUPT_MESSAGE
    harmed = bytearray(numbered(10, 4, b"e"))
    harmed[-2] ^= 1
    assert code_of(lambda: log.append_as_follower(bytes(harmed))) is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 10


def test_empty_log_takes_batch_that_begins_before_its_start(make: Make) -> None:
    """As its leader's does, where somebody has wished away what is before."""
    log = make()
    log.truncate_fully_and_start_at(2)
    assert code_of(lambda: log.append_as_follower(numbered(0, 4, b"a", b"b"))) is ErrorCode.CORRUPT_MESSAGE
    log.append_as_follower(numbered(0, 4, b"a", b"b", b"c", b"d") + numbered(4, 4, b"e"))
    assert (log.start_offset, log.end_offset) == (2, 5)
    assert parse_header(log.read(2, ALL, 5).records).base_offset == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(1, ALL, 5)
    assert code_of(lambda: log.append_as_follower(numbered(3, 4, b"d", b"e", b"f"))) is ErrorCode.CORRUPT_MESSAGE


def test_retry_gets_first_offsets(make: Make) -> None:
    log = make()
    log.append_as_leader(of_producer(7, 0, b"a", b"b"), 0, NOW)
    log.append_as_leader(of_producer(7, 2, b"c"), 0, NOW)
    assert log.append_as_leader(of_producer(7, 0, b"a", b"b"), 0, NOW) == LogAppendInfo(
        0, 1, -1, NOW, 1, duplicate=True
    )
    gap = of_producer(7, 9, b"d")
    assert code_of(lambda: log.append_as_leader(gap, 0, NOW)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 3


def test_retry_after_failover_is_recognized(make: Make) -> None:
    leader, follower = make(), make()
    for sequence in range(6):
        leader.append_as_leader(of_producer(7, sequence, b"v%d" % sequence), 0, NOW)
    follower.append_as_follower(leader.read(0, ALL, 6).records)
    follower.assign_epoch(1, 6)
    for sequence in range(1, 6):
        again = follower.append_as_leader(of_producer(7, sequence, b"v%d" % sequence), 1, NOW)
        assert (again.duplicate, again.first) == (True, sequence)
    assert follower.append_as_leader(of_producer(7, 6, b"v6"), 1, NOW).first == 6


def test_truncated_batch_may_be_sent_again(make: Make) -> None:
    log = make()
    for sequence in range(8):
        log.append_as_leader(of_producer(7, sequence, b"v"), 0, NOW)
    log.truncate_to(6)
    assert log.append_as_leader(of_producer(7, 5, b"v"), 1, NOW).duplicate
    assert not log.append_as_leader(of_producer(7, 6, b"v"), 1, NOW).duplicate


def test_truncation_removes_whole_batches_and_their_epochs(make: Make) -> None:
    log = make()
    log.append_as_leader(batch(b"a", b"b"), 0, NOW)
    log.append_as_leader(batch(b"c", b"d", b"e"), 2, NOW)
    log.truncate_to(99)
    log.truncate_to(3)
    assert (log.end_offset, log.latest_epoch, values_in(log)) == (2, 0, [b"a", b"b"])
    assert log.append_as_leader(batch(b"x"), 3, NOW).first == 2
    assert log.end_offset_for_epoch(0) == EpochEndOffset(0, 2)


def test_truncation_at_end_removes_epoch_without_records(make: Make) -> None:
    """Else two replicas ask each other for its end for ever."""
    log = make()
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.assign_epoch(5, 1)
    assert log.latest_epoch == 5
    log.truncate_to(1)
    assert (log.latest_epoch, log.end_offset) == (0, 1)


def test_epoch_continues_after_one_without_records(make: Make) -> None:
    """Who led for a moment, and lacked the end of the epoch before, is given that. The epoch has not begun there: the
    one before it would seem to last until there, and a replica that has more of that one would seem to be right."""
    leader, other = make(), make()
    leader.append_as_leader(batch(b"a"), 1, NOW)
    leader.append_as_leader(batch(b"b"), 2, NOW)
    other.append_as_follower(leader.read(0, ALL, 2).records)
    other.assign_epoch(3, 2)
    leader.append_as_leader(batch(b"c"), 2, NOW)
    leader.append_as_leader(batch(b"d"), 4, NOW)
    other.append_as_follower(leader.read(2, ALL, 4).records)
    assert [other.end_offset_for_epoch(epoch) for epoch in (1, 2, 3)] == [
        EpochEndOffset(1, 1),
        EpochEndOffset(2, 3),
        EpochEndOffset(2, 3),
    ]
    assert [other.epoch_for_offset(offset) for offset in range(4)] == [1, 2, 2, 4]


def test_full_truncation_starts_at_offset(make: Make) -> None:
    log = make()
    log.append_as_leader(of_producer(7, 0, b"a"), 0, NOW)
    log.truncate_fully_and_start_at(40)
    assert (log.start_offset, log.end_offset, log.latest_epoch) == (40, 40, -1)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, ALL, 40)
    assert log.append_as_leader(of_producer(7, 0, b"b"), 1, NOW).first == 40
    assert values_in(log) == [b"b"]


def test_start_offset_only_increases(make: Make) -> None:
    log = make()
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value, value), 0, NOW)
    log.increment_start_offset(3)
    log.increment_start_offset(1)
    assert (log.start_offset, values_in(log)) == (3, [b"b", b"c", b"c"])
    with pytest.raises(OffsetOutOfRange):
        log.read(2, ALL, 6)
    with pytest.raises(OffsetOutOfRange):
        log.increment_start_offset(7)
    log.truncate_to(1)
    assert (log.start_offset, log.end_offset) == (1, 1)


def test_search_by_timestamp(make: Make) -> None:
    log = make()
    assert log.greatest_timestamp() is None
    for time in (NOW + 10, NOW + 5, NOW + 30, NOW + 20):
        log.append_as_leader(batch(b"x", b"y", time=time), 0, NOW)
    assert log.find_timestamp(0) == TimestampAndOffset(NOW + 10, 0, 0)
    assert log.find_timestamp(NOW + 11) == TimestampAndOffset(NOW + 30, 4, 0)
    assert log.find_timestamp(NOW + 31) is None
    assert log.greatest_timestamp() == TimestampAndOffset(NOW + 30, 4, 0)
    log.increment_start_offset(5)
    assert log.find_timestamp(0) == TimestampAndOffset(NOW + 30, 5, 0)
    log.increment_start_offset(6)
    assert log.greatest_timestamp() == TimestampAndOffset(NOW + 20, 6, 0)


def test_log_append_time_replaces_timestamps(make: Make) -> None:
    log = make(message_timestamp_type="LogAppendTime")
    assert log.append_as_leader(batch(b"a", time=5), 0, NOW) == LogAppendInfo(0, 0, NOW, NOW, 0)
    assert records_in(log)[0].timestamp == NOW


def test_compression_type_recompresses_batches(make: Make) -> None:
    log = make(compression_type="zstd")
    log.append_as_leader(batch(b"a", b"b", codec=Codec.GZIP), 0, NOW)
    assert parse_header(log.read(0, ALL, 2).records).codec is Codec.ZSTD
    assert values_in(log) == [b"a", b"b"]


def test_coordinator_appends_batches_and_marker(make: Make) -> None:
    log = make()
    marker = control_batch(ControlType.COMMIT, 7, 0, 3, NOW)
    assert code_of(lambda: log.append_as_leader(marker, 0, NOW)) is ErrorCode.INVALID_RECORD
    assert log.append_as_leader(batch(b"a") + marker + batch(b"b"), 0, NOW, origin=AppendOrigin.COORDINATOR).last == 2
    assert [header.control for _, header in walk(log.read(0, ALL, 3).records)] == [False, True, False]


def test_flush_returns_end_offset(make: Make) -> None:
    log = make()
    log.append_as_leader(batch(b"a"), 0, NOW)
    assert log.flush() == 1
