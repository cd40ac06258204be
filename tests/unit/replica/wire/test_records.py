"""Batches to the byte: as written down, as clients build them, and back."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from aiokafka.record import default_records as aio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kp

from replica.core.errors import ErrorCode, KafkaError
from replica.wire import varint
from replica.wire.batch import HEADER_BYTES, TRANSACTIONAL, check, parse_header, stamp, stamp_append_time, walk
from replica.wire.compression import READ_BYTES_MAX, Codec, deflate, inflate
from replica.wire.records import ControlType, Record, batch_of, build, control_batch, read_control, read_records

GOLDEN = bytes.fromhex(
    "0000000000000000 0000004f 00000000 02 861dcddb 0000 00000001 0000018bcfe56800 0000018bcfe56805"
    "ffffffffffffffff ffff ffffffff 00000002 14 00 00 00 04 6b31 04 7631 00"
    "24 00 0a 02 01 0a 68656c6c6f 04 02 68 02 78 02 6e 01"
)
TIME = 1_700_000_000_000
GOLDEN_RECORDS = [
    Record(0, TIME, b"k1", b"v1"),
    Record(1, TIME + 5, None, b"hello", (("h", b"x"), ("n", None))),
]

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> list[Record]:
    base = draw(st.integers(0, 1 << 40))
    times = st.integers(0, 1 << 45)
    rows = draw(st.lists(st.tuples(times, blobs, blobs, headers), min_size=1, max_size=8))
    return [Record(base + index, *row) for index, row in enumerate(rows)]


# -- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804"), (-300, "d704")],
)
def test_signed_numbers(number: int, encoded: str) -> None:
    assert varint.encode(number).hex() == encoded
    assert varint.decode(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_number_comes_back(number: int) -> None:
    data = b"x" + varint.encode(number)
    assert varint.decode(data, 1) == (number, len(data))
    assert varint.size(number) == len(data) - 1


def test_a_number_that_does_not_end() -> None:
    with pytest.raises(ValueError, match="ten bytes"):
        varint.decode(b"\xff" * 11, 0)
    with pytest.raises(ValueError, match="32 bits"):
        varint.decode(varint.encode(1 << 40), 0, 32)


# -- whole batches -------------------------------------------------------------------------------------


def test_golden_batch() -> None:
    header = check(GOLDEN)
    assert header.size == len(GOLDEN) == 91
    assert (header.record_count, header.last_offset, header.max_timestamp) == (2, 1, TIME + 5)
    assert list(read_records(GOLDEN)) == GOLDEN_RECORDS
    assert build(GOLDEN_RECORDS, leader_epoch=0) == GOLDEN


def test_any_flipped_bit_that_the_checksum_covers_is_noticed() -> None:
    for at in range(16, len(GOLDEN)):
        harmed = bytearray(GOLDEN)
        harmed[at] ^= 0x10
        with pytest.raises(KafkaError) as caught:
            check(harmed)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_stamp_leaves_the_checksum_alone() -> None:
    buffer = bytearray(GOLDEN)
    stamp(buffer, 0, 1234, 7)
    header = check(buffer)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (1234, 1235, 7)
    assert [record.offset for record in read_records(buffer)] == [1234, 1235]


def test_the_time_of_the_log() -> None:
    buffer = bytearray(GOLDEN)
    stamp_append_time(buffer, 0, TIME + 99)
    assert check(buffer).log_append_time
    assert [record.timestamp for record in read_records(buffer)] == [TIME + 99] * 2
    assert [record.timestamp for record in aio.DefaultRecordBatch(bytes(buffer))] == [TIME + 99] * 2


@pytest.mark.parametrize("codec", list(Codec))
@given(records=batches(), producer=st.booleans())
def test_compressed_records_are_read(codec: Codec, records: list[Record], producer: bool) -> None:
    known = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 5} if producer else {}
    data = build(records, codec=codec, leader_epoch=3, flags=TRANSACTIONAL if producer else 0, **known)
    header = check(data)
    assert header.codec is codec
    assert header.last_sequence == (5 + len(records) - 1 if producer else -1)
    assert list(read_records(data)) == records


def test_walking_over_batches_back_to_back() -> None:
    two = GOLDEN + build([Record(2, TIME, None, b"x")])
    assert [(at, header.base_offset) for at, header in walk(two)] == [(0, 0), (91, 2)]
    assert [at for at, _ in walk(two[:-1])] == [0]
    with pytest.raises(KafkaError, match="the bytes at 91 are not a batch"):
        list(walk(GOLDEN + bytes(100)))


def test_control_batches() -> None:
    data = control_batch(ControlType.COMMIT, 7, 1, 12, TIME, base_offset=40)
    header = check(data)
    assert header.control
    assert header.transactional
    [record] = read_records(data)
    assert record.offset == 40
    assert read_control(record) == (ControlType.COMMIT, 12)
    assert read_control(evolve(record, key=bytes.fromhex("00000009"))) == (None, 12)
    with pytest.raises(KafkaError, match="too short"):
        read_control(evolve(record, value=b""))
    theirs = aio.DefaultRecordBatch(data)
    assert theirs.is_control_batch
    assert theirs.is_transactional


def test_sequences_wrap() -> None:
    header = check(build(GOLDEN_RECORDS, producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 1))
    assert header.last_sequence == 0


# -- beside clients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_aiokafka_builds_it_and_reads_ours(codec: Codec) -> None:
    records = [*GOLDEN_RECORDS, Record(2, TIME - 7, b"k", b"v" * 100_000), Record(3, TIME, b"", b"")]
    builder = aio.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    header = check(theirs)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.transactional) == (77, 3, 9, True)
    assert list(read_records(theirs)) == records
    ours = build(records, codec=codec)
    reader = aio.DefaultRecordBatch(ours)
    assert reader.validate_crc()
    assert [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in reader
    ] == records
    if codec is Codec.NONE:
        plain = build(records, producer_id=77, producer_epoch=3, base_sequence=9, flags=TRANSACTIONAL)
        assert plain[21:] == theirs[21:]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_kafka_python_builds_it_and_reads_ours(codec: Codec) -> None:
    builder = kp.DefaultRecordBatchBuilder(2, codec.value, False, -1, -1, -1, 1 << 20)
    for record in GOLDEN_RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    check(theirs)
    assert list(read_records(theirs)) == GOLDEN_RECORDS
    if codec is Codec.NONE:
        assert theirs[12:] == build(GOLDEN_RECORDS)[12:] or theirs[16:] == GOLDEN[16:]
    reader = kp.DefaultRecordBatch(build(GOLDEN_RECORDS, codec=codec))
    assert reader.validate_crc()
    assert [each.value for each in reader] == [b"v1", b"hello"]


# -- codecs --------------------------------------------------------------------------------------------

PACKED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 31, 32 << 10, (32 << 10) + 1, 64 << 10, 300_000])
def test_a_codec_undoes_itself(codec: Codec, size: int) -> None:
    data = bytes(index * index % 251 for index in range(size))
    assert bytes(inflate(codec, deflate(codec, data), size)) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_not_blown_up(codec: Codec) -> None:
    packed = deflate(codec, bytes(1 << 22))
    assert len(packed) < 1 << 18
    with pytest.raises(KafkaError, match="send smaller batches") as caught:
        inflate(codec, packed, (1 << 22) - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", PACKED)
def test_a_cut_or_foreign_block_is_refused(codec: Codec) -> None:
    packed = deflate(codec, b"some words, some words, some words" * 10)
    for harmed in (packed[:-3], b"\xff" * 20, packed[: len(packed) // 2]):
        with pytest.raises(KafkaError) as caught:
            inflate(codec, harmed)
        assert caught.value.code is ErrorCode.INVALID_RECORD


def test_raw_snappy_is_read_too() -> None:
    import cramjam

    data = b"as some clients write it" * 50
    assert inflate(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_gzip_of_many_members() -> None:
    assert inflate(Codec.GZIP, deflate(Codec.GZIP, b"one") + deflate(Codec.GZIP, b"two"), 6) == b"onetwo"


def test_lz4_blocks_do_not_depend_on_each_other() -> None:
    """The Java client refuses frames without this flag."""
    assert deflate(Codec.LZ4, b"x" * 100)[4] & 0x20


def test_records_that_break_off() -> None:
    body = bytearray(GOLDEN)
    body[57:61] = (9).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="malformed records") as caught:
        list(read_records(body))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_batch_of_pairs() -> None:
    data = batch_of([(b"a", b"1"), (b"b", None)], TIME)
    assert parse_header(data).record_count == 2
    assert [(each.key, each.value) for each in read_records(data)] == [(b"a", b"1"), (b"b", None)]
    assert len(data) > HEADER_BYTES


# -- many small pieces -------------------------------------------------------------------------------------------


def test_reading_many_gzip_members_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib hands back what is behind a member: of a stream that it is given whole, each member would copy the rest."""
    handled = 0
    real = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._it = real(wbits=wbits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._it, name)

        def decompress(self, given: bytes, most: int) -> bytes:
            nonlocal handled
            made = self._it.decompress(given, most)
            handled += len(given) + len(self._it.unused_data)
            return made

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    counts = []
    for members in (4_000, 16_000):
        handled = 0
        assert inflate(Codec.GZIP, deflate(Codec.GZIP, b"") * members + deflate(Codec.GZIP, b"records")) == b"records"
        counts.append(handled)
    assert counts[1] < 8 * counts[0]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_pieces_without_content_are_bounded(codec: Codec) -> None:
    if codec is Codec.GZIP:
        data = deflate(codec, b"") * 1_000
    else:
        data = deflate(codec, b"") + b"\0\0\0\x01\0" * 10_000
    assert inflate(codec, data) == b""
    with pytest.raises(KafkaError, match=f"too many (members|blocks) of {codec.label}") as refused:
        inflate(codec, data, 1 << 20)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_a_batch_larger_than_a_producer_may_send_can_be_read(codec: Codec) -> None:
    """The bound for producers is a setting, and may have been greater when a batch was accepted."""
    data = bytes((64 << 20) + 1)
    packed = deflate(codec, data)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        inflate(codec, packed)
    assert len(inflate(codec, packed, READ_BYTES_MAX)) == len(data)
