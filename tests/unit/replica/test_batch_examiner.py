"""What takes long about a batch is done beside the loop, and comes to the same as if it were not."""

from __future__ import annotations

import random
import threading
import zlib
from collections.abc import Awaitable, Callable
from functools import cache, partial

import pytest
import trio
import trio.testing
from attrs import evolve

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.offset_lookup import GREATEST
from replica.core.partitions.partition_log import BatchBounds, ExaminedBatch, TimestampAndOffset
from replica.core.replica_messages import Produced
from replica.runtime.replication.batch_examiner import BatchExaminer, BatchExaminerSettings
from replica.wire.batch import HEADER_BYTES, PREFIX, Header, parse_header, seal
from replica.wire.compression import INFLATED_BYTES_MAX, Codec, deflate, inflate
from replica.wire.records import Record, build, read_records
from tests.unit.replica.storage.logs import MemoryLog

NOW = 1_700_000_000_000
WHERE = TopicPartition("t", 0)
SMALL = BatchExaminerSettings(unpacked_bytes_max=1_000, records_max=50, light_bytes_max=500)
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class Watched(MemoryLog):
    """Who looked at it, and what for."""

    def __init__(self, config: LogConfig | None = None) -> None:
        super().__init__(config=config)
        self.loop = threading.get_ident()
        self.asked: list[tuple[str, bool]] = []

    def _note(self, what: str) -> None:
        self.asked.append((what, threading.get_ident() == self.loop))

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        self._note("all" if definite else "some")
        return super().examine(batches, bounds, definite=definite)

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        self._note("time")
        return super().find_timestamp(timestamp)

    def greatest_timestamp(self) -> TimestampAndOffset | None:
        self._note("greatest")
        return super().greatest_timestamp()


def records(count: int, size: int = 10, codec: Codec = Codec.NONE, key: bytes | None = b"k") -> bytes:
    return build([Record(index, NOW + index, key, bytes(size)) for index in range(count)], codec=codec)


def bomb(codec: Codec, size: int) -> bytes:
    """A batch whose one record is all zeros, and says nothing true."""
    header = parse_header(records(1))
    packed = deflate(codec, bytes(size))
    fields: Header = header._replace(length=HEADER_BYTES - PREFIX.size + len(packed), attributes=codec)
    return seal(fields, packed)


def examined(log: Watched, batch: bytes, settings: BatchExaminerSettings = SMALL) -> bytes | ExaminedBatch:
    async def ask() -> bytes | ExaminedBatch:
        [(where, found)] = await BatchExaminer(settings).all_examined([(WHERE, batch)], lambda where: log)
        assert where == WHERE
        return found

    return trio.run(ask)


def test_the_records_that_one_answer_names_are_bounded() -> None:
    log = Watched(LogConfig(cleanup_policy=("compact",)))
    entries = [(TopicPartition("t", index), records(40, key=None)) for index in range(4)]
    refused = [Produced(where, ErrorCode.INVALID_RECORD) for where, _ in entries]
    refused[1] = Produced(entries[1][0], ErrorCode.MESSAGE_TOO_LARGE)

    async def ask() -> list[Produced]:
        return await BatchExaminer(BatchExaminerSettings(record_errors_max=50)).with_record_errors(
            refused, entries, lambda where: log, NOW
        )

    answers = trio.run(ask)
    assert [len(each.record_errors) for each in answers] == [40, 0, 10, 0]
    assert [each.error for each in answers] == [each.error for each in refused]


def test_a_small_plain_batch_is_not_looked_at() -> None:
    log, batch = Watched(), records(10)
    assert examined(log, batch) is batch
    assert log.asked == []


def test_a_larger_plain_batch_is_stepped_through_once_and_at_once() -> None:
    log, batch = Watched(), records(50, 1_000)
    assert examined(log, batch) == ExaminedBatch(batch, 0, 49)
    assert log.asked == [("some", True)]


def test_a_batch_of_many_headers_goes_to_a_thread() -> None:
    log, batch = Watched(), build([Record(0, NOW, b"k", b"v", (("h", None),) * 400)])
    assert examined(log, batch) == ExaminedBatch(batch)
    assert log.asked == [("some", True), ("all", False)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_many_batches_in_one_request_let_others_run_in_between(codec: Codec) -> None:
    log, batch, turns = Watched(), records(10, 20, codec), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            found = await BatchExaminer(SMALL).all_examined([(WHERE, batch)] * 100, lambda where: log)
            assert len(found) == 100
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert turns > 90


@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
def test_a_batch_of_more_records_and_headers_than_allowed_is_refused(codec: Codec) -> None:
    """Some kilobytes may unpack to 30 million headers, and stepping over them takes ten seconds."""
    bounds = evolve(SMALL, batch_records_max=1_000)
    for batch in (
        build([Record(0, NOW, b"k", b"v", (("", None),) * 1_000)], codec=codec),
        records(1_001, 1, codec),
        build([Record(index, NOW, b"k", b"v", (("", None),)) for index in range(501)], codec=codec),
    ):
        log = Watched()
        with pytest.raises(KafkaError, match="1000 are allowed") as caught:
            log.append_as_leader(examined(log, batch, bounds), 1, NOW)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    log = Watched()
    batch = build([Record(index, NOW, b"k", b"v", (("", None),)) for index in range(500)], codec=codec)
    assert log.append_as_leader(examined(log, batch, bounds), 1, NOW).last == 499


@pytest.mark.parametrize("codec", COMPRESSED)
def test_how_much_a_batch_may_unpack_to_is_a_setting(codec: Codec) -> None:
    log, batch = Watched(), records(2, 50_000, codec)
    with pytest.raises(KafkaError, match="exceed 100000 bytes"):
        log.append_as_leader(examined(log, batch, evolve(SMALL, batch_bytes_max=100_000)), 1, NOW)
    assert log.append_as_leader(examined(log, batch, evolve(SMALL, batch_bytes_max=101_000)), 1, NOW).last == 1


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_small_compressed_batch_is_unpacked_once_and_at_once(codec: Codec) -> None:
    log, batch = Watched(), records(10, codec=codec)
    found = examined(log, batch)
    assert log.asked == [("some", True)]
    assert found == ExaminedBatch(batch, 0, 9)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_compressed_batch_that_holds_much_goes_to_a_thread(codec: Codec) -> None:
    log, batch = Watched(), records(10, 1_000, codec)
    found = examined(log, batch)
    assert log.asked == [("some", True), ("all", False)]
    assert found == ExaminedBatch(batch, 0, 9)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_of_many_records_goes_to_a_thread(codec: Codec) -> None:
    log, batch = Watched(), records(51, 1, codec)
    assert examined(log, batch) == ExaminedBatch(batch, 0, 50)
    assert log.asked == [("all", False)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_bomb_is_refused_and_never_unpacked_on_the_loop(codec: Codec) -> None:
    log, batch = Watched(), bomb(codec, INFLATED_BYTES_MAX + 1)
    assert len(batch) < 100_000
    found = examined(log, batch, BatchExaminerSettings())
    assert log.asked == [("some", True), ("all", False), ("all", False)]
    assert isinstance(found, ExaminedBatch)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(found, 1, NOW)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


class Held(Watched):
    """Until `release` is set, hold threads that examine `large` with full bounds, search or name refused records."""

    def __init__(self, large: bytes = b"") -> None:
        super().__init__()
        self.large, self.holding, self.release = large, threading.Event(), threading.Event()

    def _hold(self) -> None:
        self.holding.set()
        self.release.wait()

    def examine(self, batches: bytes, bounds: BatchBounds, *, definite: bool = True) -> ExaminedBatch | None:
        if batches is self.large and bounds.bytes_max == INFLATED_BYTES_MAX:
            self._hold()
        return super().examine(batches, bounds, definite=definite)

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        self._hold()
        return super().find_timestamp(timestamp)

    def refused_records(self, batch: bytes, bounds: BatchBounds, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
        self._hold()
        return super().refused_records(batch, bounds, now_ms, most)


@cache
def honest(codec: Codec) -> bytes:
    """Return a batch of 6 MB that compresses to about a tenth."""
    noise = random.Random(1)
    return build([Record(index, NOW, b"k", noise.randbytes(200) + bytes(1_800)) for index in range(3_000)], codec=codec)


async def examined_beside(
    log: Held, examiner: BatchExaminer, batch: bytes, other: Callable[[], Awaitable[object]]
) -> bytes | ExaminedBatch | None:
    """Examine the batch while eight calls of `other` are held. Return None if the batch waits for them."""
    found = None
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(other)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(10):  # only to end a failing test
            found = await examiner.examined(log, batch)
        log.release.set()
    return found


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("headers", [0, 100_000])
def test_a_batch_does_not_wait_for_batches_that_unpack_to_much_more(codec: Codec, headers: int) -> None:
    size = 60_000_000 if not headers else 10
    large = build([Record(0, NOW, b"k", bytes(size), (("", None),) * headers)], codec=codec)
    batch = honest(codec)
    log, examiner, found = Held(large), BatchExaminer(BatchExaminerSettings()), []

    async def bomb() -> None:
        found.append(await examiner.examined(log, large))

    assert trio.run(examined_beside, log, examiner, batch, bomb) == ExaminedBatch(batch, 0, 0)
    assert found == [ExaminedBatch(large, 0, 0)] * 8


def test_a_batch_does_not_wait_for_searches() -> None:
    log, examiner, batch = Held(), BatchExaminer(BatchExaminerSettings()), honest(Codec.GZIP)
    assert trio.run(examined_beside, log, examiner, batch, partial(examiner.searched, log, NOW)) == ExaminedBatch(batch)


def test_a_batch_does_not_wait_for_the_errors_of_records() -> None:
    log, examiner, batch = Held(), BatchExaminer(BatchExaminerSettings()), honest(Codec.GZIP)
    entries = [(WHERE, records(10))]
    refused = [Produced(WHERE, ErrorCode.INVALID_RECORD)]

    async def ask() -> None:
        await examiner.with_record_errors(refused, entries, lambda where: log, NOW)

    assert trio.run(examined_beside, log, examiner, batch, ask) == ExaminedBatch(batch)


@pytest.mark.parametrize(
    "made", [partial(records, 1, 60_000_000, Codec.GZIP), partial(bomb, Codec.GZIP, INFLATED_BYTES_MAX + 1)]
)
def test_the_ordinary_lane_gives_a_batch_up_at_its_bound(
    made: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = made()
    log, examiner, unpacked = Held(large), BatchExaminer(BatchExaminerSettings()), 0

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._member = decompressobj(wbits=wbits)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

        def decompress(self, data: bytes, bytes_max: int) -> bytes:
            nonlocal unpacked
            piece = self._member.decompress(data, bytes_max)
            unpacked += 0 if threading.get_ident() == log.loop else len(piece)
            return piece

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(examiner.examined, log, large)
            await trio.to_thread.run_sync(log.holding.wait, 10)
            in_ordinary_lane.append(unpacked)
            log.release.set()

    decompressobj = zlib.decompressobj
    monkeypatch.setattr("replica.wire.compression.zlib.decompressobj", Counted)
    in_ordinary_lane: list[int] = []
    trio.run(main)
    assert in_ordinary_lane == [(4 << 20) + 1]
    assert unpacked > 60_000_000


def _bad_checksum(batch: bytes) -> bytes:
    return batch[:17] + bytes([batch[17] ^ 1]) + batch[18:]


def _codec_of_seven(batch: bytes) -> bytes:
    return seal(parse_header(batch)._replace(attributes=7), batch[HEADER_BYTES:])


def _one_record_less(batch: bytes) -> bytes:
    header = parse_header(batch)
    return seal(header._replace(record_count=9, last_delta=8), batch[HEADER_BYTES:])


def _no_records(batch: bytes) -> bytes:
    return seal(parse_header(batch)._replace(record_count=0, last_delta=-1), batch[HEADER_BYTES:])


def _too_many(batch: bytes) -> bytes:
    return seal(parse_header(batch)._replace(record_count=2**31 - 1, last_delta=2**31 - 2), batch[HEADER_BYTES:])


def _no_codec(batch: bytes) -> bytes:
    return seal(parse_header(batch)._replace(attributes=Codec.GZIP), batch[HEADER_BYTES:])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    "harm",
    [
        _bad_checksum,
        _codec_of_seven,
        _one_record_less,
        _no_records,
        _too_many,
        _no_codec,
        lambda batch: batch[:-1],
        lambda batch: batch + b"x",
        lambda batch: batch[:40],
        lambda batch: batch + batch,
        lambda batch: b"",
    ],
)
def test_examined_batch_gets_the_same_errors(codec: Codec, harm: Callable[[bytes], bytes]) -> None:
    batch = harm(records(10, 1_000, codec))
    with pytest.raises(KafkaError) as plain:
        MemoryLog().append_as_leader(batch, 1, NOW)
    log = Watched()
    found = examined(log, batch, evolve(SMALL, records_max=5, light_bytes_max=1))
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(found, 1, NOW)
    assert (caught.value.code, caught.value.text) == (plain.value.code, plain.value.text)
    assert log.end_offset == 0


@pytest.mark.parametrize("codec", COMPRESSED)
def test_examined_batch_is_stored_unchanged(codec: Codec) -> None:
    batch = records(10, 1_000, codec)
    plain, log = MemoryLog(), Watched()
    assert log.append_as_leader(examined(log, batch), 3, NOW) == plain.append_as_leader(batch, 3, NOW)
    assert log.read(0, 1 << 20, 10) == plain.read(0, 1 << 20, 10)


def test_it_is_also_compressed_otherwise_in_the_thread() -> None:
    log, batch = Watched(LogConfig.of({"compression.type": "gzip"})), records(10, 1_000, Codec.LZ4)
    found = examined(log, batch)
    assert isinstance(found, ExaminedBatch)
    assert parse_header(found.data).codec is Codec.GZIP
    log.append_as_leader(found, 1, NOW)
    stored = log.read(0, 1 << 20, 10).records
    assert inflate(Codec.GZIP, stored[HEADER_BYTES:]) == inflate(Codec.LZ4, batch[HEADER_BYTES:])
    assert [each.timestamp for each in read_records(stored)] == [NOW + index for index in range(10)]


def test_a_topic_that_is_compacted_from_now_on_looks_again_whether_there_are_keys() -> None:
    log = Watched()
    found = examined(log, records(10, 1_000, Codec.LZ4, key=None))
    log.config = LogConfig.of({"cleanup.policy": "compact"})
    with pytest.raises(KafkaError, match="has no key"):
        log.append_as_leader(found, 1, NOW)


def test_timestamp_lookup_runs_in_a_thread() -> None:
    log = Watched()
    log.append_as_leader(records(10, codec=Codec.GZIP), 1, NOW)

    async def ask(timestamp: int) -> TimestampAndOffset | None:
        search = await BatchExaminer(SMALL).searched(log, timestamp)
        return search(log, timestamp)

    assert trio.run(ask, NOW + 4) == TimestampAndOffset(NOW + 4, 4, 1)
    assert trio.run(ask, GREATEST) == TimestampAndOffset(NOW + 9, 9, 1)
    assert trio.run(ask, NOW + 10) is None
    assert log.asked == [("time", False), ("greatest", False), ("time", False)]
