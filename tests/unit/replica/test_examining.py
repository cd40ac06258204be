"""What takes long about a batch is done beside the loop, and comes to the same as if it were not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio
from attrs import evolve

from replica.core.errors import ErrorCode, KafkaError
from replica.core.log import Examined, Found
from replica.core.offsets import GREATEST
from replica.runtime.examining import Examiner, ExaminingSettings
from replica.storage.config import LogConfig
from replica.storage.memory_log import MemoryLog
from replica.wire.batch import HEADER_BYTES, PREFIX, Header, parse_header, seal
from replica.wire.compression import INFLATED_BYTES_MAX, Codec, deflate, inflate
from replica.wire.records import Record, build, read_records

NOW = 1_700_000_000_000
SMALL = ExaminingSettings(unpacked_bytes_max=1_000, records_max=50)
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class Watched(MemoryLog):
    """Who looked at it, and what for."""

    def __init__(self, config: LogConfig | None = None) -> None:
        super().__init__(config=config)
        self.loop = threading.get_ident()
        self.asked: list[tuple[str, bool]] = []

    def _note(self, what: str) -> None:
        self.asked.append((what, threading.get_ident() == self.loop))

    def examine(self, batches: bytes, bytes_max: int | None = None) -> Examined | None:
        self._note("all" if bytes_max is None else "some")
        return super().examine(batches, bytes_max)

    def find_timestamp(self, timestamp: int) -> Found | None:
        self._note("time")
        return super().find_timestamp(timestamp)

    def greatest_timestamp(self) -> Found | None:
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


def examined(log: Watched, batch: bytes, settings: ExaminingSettings = SMALL) -> bytes | Examined:
    async def ask() -> bytes | Examined:
        return await Examiner(settings).examined(log, batch)

    return trio.run(ask)


def test_a_small_plain_batch_is_not_looked_at() -> None:
    log, batch = Watched(), records(50, 1_000)
    assert examined(log, batch) is batch
    assert log.asked == []


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_small_compressed_batch_is_unpacked_once_and_at_once(codec: Codec) -> None:
    log, batch = Watched(), records(10, codec=codec)
    found = examined(log, batch)
    assert log.asked == [("some", True)]
    assert found == Examined(batch, 0, 9)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_compressed_batch_that_holds_much_goes_to_a_thread(codec: Codec) -> None:
    log, batch = Watched(), records(10, 1_000, codec)
    found = examined(log, batch)
    assert log.asked == [("some", True), ("all", False)]
    assert found == Examined(batch, 0, 9)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_of_many_records_goes_to_a_thread(codec: Codec) -> None:
    log, batch = Watched(), records(51, 1, codec)
    assert examined(log, batch) == Examined(batch, 0, 50)
    assert log.asked == [("all", False)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_bomb_is_refused_and_never_unpacked_on_the_loop(codec: Codec) -> None:
    log, batch = Watched(), bomb(codec, INFLATED_BYTES_MAX + 1)
    assert len(batch) < 100_000
    found = examined(log, batch, ExaminingSettings())
    assert log.asked == [("some", True), ("all", False)]
    assert isinstance(found, Examined)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(found, 1, NOW)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


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
def test_what_is_wrong_is_told_as_without_looking_before(codec: Codec, harm: Callable[[bytes], bytes]) -> None:
    batch = harm(records(10, 1_000, codec))
    with pytest.raises(KafkaError) as plain:
        MemoryLog().append_as_leader(batch, 1, NOW)
    log = Watched()
    found = examined(log, batch, evolve(SMALL, records_max=5))
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(found, 1, NOW)
    assert (caught.value.code, caught.value.text) == (plain.value.code, plain.value.text)
    assert log.end_offset == 0


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_was_looked_at_before_is_stored_as_it_would_be(codec: Codec) -> None:
    batch = records(10, 1_000, codec)
    plain, log = MemoryLog(), Watched()
    assert log.append_as_leader(examined(log, batch), 3, NOW) == plain.append_as_leader(batch, 3, NOW)
    assert log.read(0, 1 << 20, 10) == plain.read(0, 1 << 20, 10)


def test_it_is_also_compressed_otherwise_in_the_thread() -> None:
    log, batch = Watched(LogConfig.of({"compression.type": "gzip"})), records(10, 1_000, Codec.LZ4)
    found = examined(log, batch)
    assert isinstance(found, Examined)
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


def test_whoever_asks_for_a_time_has_it_looked_up_in_a_thread() -> None:
    log = Watched()
    log.append_as_leader(records(10, codec=Codec.GZIP), 1, NOW)

    async def ask(timestamp: int) -> Found | None:
        search = await Examiner(SMALL).searched(log, timestamp)
        return search(log, timestamp)

    assert trio.run(ask, NOW + 4) == Found(NOW + 4, 4, 1)
    assert trio.run(ask, GREATEST) == Found(NOW + 9, 9, 1)
    assert trio.run(ask, NOW + 10) is None
    assert log.asked == [("time", False), ("greatest", False), ("time", False)]
