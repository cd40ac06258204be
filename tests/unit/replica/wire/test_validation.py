"""Which batch a producer may leave with us, and what it is told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from replica.core.errors import ErrorCode, KafkaError
from replica.wire import varint
from replica.wire.batch import CONTROL, DELETE_HORIZON, HEADER, LOG_APPEND_TIME, TRANSACTIONAL, parse_header, seal
from replica.wire.compression import Codec
from replica.wire.records import ControlType, Record, batch_of, build, control_batch
from replica.wire.validation import Rules, refuse_zstd_before, refused_records, step_through, validate

NOW = 1_700_000_000_000
GOOD = build([Record(0, NOW, b"k", b"v"), Record(1, NOW + 3, None, b"w", (("h", None),)), Record(2, NOW, b"", b"")])


def changed(data: bytes = GOOD, body: bytes | None = None, **fields: int) -> bytes:
    """With other fields in the header, and a checksum that fits."""
    header = parse_header(data)._replace(**fields)
    rest = data[HEADER.size :] if body is None else body
    if "length" not in fields:
        header = header._replace(length=HEADER.size - 12 + len(rest))
    return seal(header, rest)


def code_of(data: bytes, rules: Rules | None = None) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate(data, rules or Rules(), NOW)
    assert caught.value.text, "an error without a reason"
    return caught.value.code


def raw_record(number: int, key: bytes = b"\x01", tail: bytes = b"\x00") -> bytes:
    body = b"\x00\x00" + varint.encode(number) + key + b"\x01" + tail
    return varint.encode(len(body)) + body


@pytest.mark.parametrize("codec", list(Codec))
def test_good_batches(codec: Codec) -> None:
    [checked] = validate(build([Record(0, NOW + 5, b"k", b"v"), Record(1, NOW, None, b"w")], codec=codec), Rules(), NOW)
    assert (checked.at, checked.max_timestamp, checked.header.record_count) == (0, NOW + 5, 2)


def test_many_records_with_long_numbers() -> None:
    records = [Record(number, NOW + number * 1000, b"k" * (number % 200), b"v" * 100) for number in range(4500)]
    [checked] = validate(build(records), Rules(), NOW)
    assert checked.max_timestamp == NOW + 4499 * 1000


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD[:8], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:40], ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (bytes(8) + (20).to_bytes(4, "big") + b"\0\0\0\0\2" + bytes(15), ErrorCode.INVALID_RECORD),
        (changed(length=40), ErrorCode.INVALID_RECORD),
        (changed(length=-5), ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD + b"x", ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.INVALID_RECORD),
        (GOOD[:16] + b"\0" + GOOD[17:], ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
        (changed(record_count=0), ErrorCode.INVALID_RECORD),
        (changed(record_count=2), ErrorCode.INVALID_RECORD),
        (changed(last_delta=7), ErrorCode.INVALID_RECORD),
        (changed(attributes=CONTROL), ErrorCode.INVALID_RECORD),
        (changed(attributes=DELETE_HORIZON), ErrorCode.INVALID_RECORD),
        (changed(attributes=LOG_APPEND_TIME), ErrorCode.INVALID_TIMESTAMP),
        (changed(attributes=TRANSACTIONAL), ErrorCode.INVALID_RECORD),
        (changed(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(attributes=Codec.ZSTD), ErrorCode.INVALID_RECORD),
        (changed(producer_id=4), ErrorCode.INVALID_RECORD),
        (changed(producer_id=4, base_sequence=0), ErrorCode.INVALID_RECORD),
        (control_batch(ControlType.ABORT, 1, 1, 1, NOW), ErrorCode.INVALID_RECORD),
        (changed(record_count=2, last_delta=1, body=raw_record(0) + raw_record(2)), ErrorCode.INVALID_RECORD),
        (changed(record_count=2, last_delta=1, body=raw_record(1) + raw_record(0)), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=raw_record(0) + b"x"), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=raw_record(0, tail=b"\x00x")), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=raw_record(0, key=b"\x7e")), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=raw_record(0, tail=b"\x02\x01\x00")), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=raw_record(0, tail=b"\x7e")), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=b"\x0a"), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=b"\x01"), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=b""), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=b"\x81\x02" + bytes(200)), ErrorCode.INVALID_RECORD),
        (changed(record_count=1, last_delta=0, body=b"\x80\x02" + bytes(127)), ErrorCode.INVALID_RECORD),
        (changed(base_timestamp=-500), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_invalid_batch_is_refused_with_its_error(data: bytes, code: ErrorCode) -> None:
    assert code_of(data) is code


def test_sizes() -> None:
    assert code_of(GOOD, Rules(bytes_max=len(GOOD) - 1)) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(GOOD, Rules(segment_bytes=len(GOOD) - 1)) is ErrorCode.RECORD_LIST_TOO_LARGE
    validate(GOOD, Rules(bytes_max=len(GOOD), segment_bytes=len(GOOD)), NOW)
    bomb = build([Record(0, NOW, None, bytes(100_000))], codec=Codec.ZSTD)
    assert code_of(bomb, Rules(inflated_bytes_max=99_999)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_needs_keys() -> None:
    assert code_of(GOOD, Rules(compacted=True)) is ErrorCode.INVALID_RECORD
    validate(batch_of([(b"k", b"v"), (b"", None)], NOW), Rules(compacted=True), NOW)
    no_key = batch_of([(None, b"v")], NOW)
    with pytest.raises(KafkaError, match="no key"):
        validate(no_key, Rules(compacted=True), NOW, check_records=False)


@pytest.mark.parametrize(("time", "fits"), [(NOW - 100, True), (NOW - 101, False), (NOW + 50, True), (NOW + 51, False)])
def test_times_in_bounds(time: int, fits: bool) -> None:
    rules = Rules(before_max_ms=100, after_max_ms=50)
    data = batch_of([(None, b"v")], time)
    if fits:
        validate(data, rules, NOW)
    else:
        assert code_of(data, rules) is ErrorCode.INVALID_TIMESTAMP
    validate(data, Rules(before_max_ms=100, after_max_ms=50, append_time=True), NOW)


def named(data: bytes, rules: Rules, most: int = 1000) -> list[int]:
    found = refused_records(data, rules, NOW, most)
    assert all(why for _, why in found)
    return [index for index, _ in found]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_records_that_are_refused_are_named(codec: Codec) -> None:
    without_key, early, late = {3, 4, 150}, {5, 160}, {6, 199}
    times = {**dict.fromkeys(early, NOW - 101), **dict.fromkeys(late, NOW + 51), 7: -1}
    records = [
        Record(index, times.get(index, NOW), None if index in without_key else b"k" * (index % 3), b"v" * index)
        for index in range(200)
    ]
    data = build(records, codec=codec)
    bounds = Rules(before_max_ms=100, after_max_ms=50)
    assert named(data, Rules(compacted=True)) == sorted(without_key)
    assert named(data, bounds) == sorted(early | late)
    assert named(data, Rules(compacted=True, before_max_ms=100)) == sorted(without_key | early)
    assert named(data, Rules(compacted=True), most=2) == [3, 4]
    assert named(data, Rules(before_max_ms=100, append_time=True)) == named(data, Rules()) == []


def test_a_record_in_the_middle_has_a_time_out_of_bounds() -> None:
    data = build([Record(index, NOW - 1000 * (index == 1), None, b"v") for index in range(3)])
    assert code_of(data, Rules(before_max_ms=100)) is ErrorCode.INVALID_TIMESTAMP
    assert named(data, Rules(before_max_ms=100)) == [1]


def test_no_record_is_named_if_the_batch_is_refused_as_a_whole() -> None:
    no_key = batch_of([(None, b"v"), (b"k", b"v")], NOW)
    rules = Rules(compacted=True)
    assert named(no_key, rules) == [0]
    for data in (
        changed(no_key, attributes=CONTROL),
        changed(no_key, last_delta=7),
        changed(no_key, body=no_key[HEADER.size : -3]),
        no_key[:-1],
        no_key[:8],
        changed(no_key, attributes=Codec.ZSTD),
    ):
        assert named(data, rules) == [], data


def test_a_record_hides_its_time_behind_a_header_that_lies() -> None:
    records = [Record(0, NOW, None, b"v"), Record(1, NOW + 1000, None, b"v")]
    data = build(records, max_timestamp=NOW)
    [checked] = validate(data, Rules(), NOW)
    assert checked.max_timestamp == NOW + 1000
    assert code_of(data, Rules(after_max_ms=500)) is ErrorCode.INVALID_TIMESTAMP


def test_a_record_without_a_time() -> None:
    [checked] = validate(batch_of([(None, b"v")], -1), Rules(before_max_ms=1), NOW)
    assert checked.max_timestamp == -1


def test_a_coordinator_may_write_more() -> None:
    data = GOOD + control_batch(ControlType.COMMIT, 1, 1, 1, NOW) + GOOD
    checked = validate(data, Rules(many=True), NOW)
    assert [each.header.control for each in checked] == [False, True, False]


def test_bodies_are_not_looked_at_where_that_is_not_wanted() -> None:
    data = changed(body=b"anything")
    assert code_of(data) is ErrorCode.INVALID_RECORD
    validate(data, Rules(), NOW, check_records=False)


def test_zstd_and_old_clients() -> None:
    data = build([Record(0, NOW, None, b"v")], codec=Codec.ZSTD)
    refuse_zstd_before(data, 7)
    refuse_zstd_before(GOOD, 3)
    with pytest.raises(KafkaError) as caught:
        refuse_zstd_before(data, 6)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    "harm",
    [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"\x01" + data[1:], lambda data: b""],
)
def test_stepping_notices(harm: Callable[[bytes], bytes]) -> None:
    body = GOOD[HEADER.size :]
    assert step_through(body, 3, keys=False) == (0, 3)
    with pytest.raises((ValueError, IndexError)):
        step_through(harm(body), 3, keys=False)


def alike(count: int, sizes: int, random: Random) -> bytes:
    """Records as producers make them: most of them have the sizes of the one before."""
    key, value = b"k" * random.choice((0, 3, 70)), bytes(random.randrange(sizes))
    records = []
    for number in range(count):
        if random.random() < 0.02:
            key, value = b"k" * random.choice((0, 3, 70)), bytes(random.randrange(sizes))
        records.append(Record(number, NOW + number // random.choice((3, 40)), key or None, value))
    return build(records)[HEADER.size :]


def one_by_one(data: bytes, count: int, *, keys: bool = False) -> tuple[int, int] | None:
    """The same judgement without haste."""
    at, times = 0, []
    try:
        for number in range(count):
            size, at = varint.decode(data, at, 32)
            stop = at + size
            time, at = varint.decode(data, at + 1)
            found, at = varint.decode(data, at, 32)
            key, at = varint.decode(data, at, 32)
            value, at = varint.decode(data, at + max(0, key), 32)
            headers, at = varint.decode(data, at + max(0, value), 32)
            if not 0 <= headers <= stop - at:
                return None
            for _ in range(headers):
                name, at = varint.decode(data, at, 32)
                content, at = varint.decode(data, at + max(0, name), 32)
                at += max(0, content)
                if name < 0:
                    return None
            if size < 0 or stop > len(data) or found != number or key < (0 if keys else -1) or at != stop:
                return None
            times.append(time)
    except (IndexError, ValueError):
        return None
    return (min(times), max(times)) if at == len(data) else None


def hasty(data: bytes, count: int, *, keys: bool = False) -> tuple[int, int] | None:
    try:
        return step_through(data, count, keys=keys)
    except (IndexError, ValueError):
        return None


@pytest.mark.parametrize("seed", range(8))
def test_records_alike_are_judged_as_if_each_were_looked_at(seed: int) -> None:
    random = Random(seed)
    refused = 0
    for _ in range(40):
        count = random.choice((1, 5, 70, 300))
        data = alike(count, random.choice((3, 60, 200)), random)
        keys = random.random() < 0.3
        assert (found := hasty(data, count, keys=keys)) == one_by_one(data, count, keys=keys)
        assert found is not None or keys
        for _ in range(10):
            harmed = bytearray(data)
            harmed[random.randrange(len(data))] ^= 1 << random.randrange(8)
            judged = one_by_one(bytes(harmed), count, keys=keys)
            refused += judged is None
            assert hasty(bytes(harmed), count, keys=keys) == judged
    assert refused > 20


def test_overlong_varint_does_not_hide_the_records_behind_it() -> None:
    """The first record writes its number in two bytes; the others have a longer key there, and are as long."""
    first = b"\x00\x00\x80\x00\x01\x02v\x00"
    others = [b"\x00\x00" + varint.encode(number) + b"\x03\x01\x02v\x00" for number in range(1, 20)]
    data = b"".join(varint.encode(len(each)) + each for each in (first, *others))
    assert one_by_one(data, 20) is None
    assert hasty(data, 20) is None
