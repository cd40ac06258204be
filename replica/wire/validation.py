"""Validation of batches before a leader appends them, and the error codes of refused batches.

A correct checksum proves only that the bytes arrived as the producer sent them. A malformed record would stop every
consumer of the partition, so all records are checked, unless `check_records` is off and the topic is not compacted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from replica.core.errors import ErrorCode, KafkaError
from replica.core.partitions.partition_log import BatchRefusal, ExaminedBatch
from replica.wire import varint
from replica.wire.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC,
    PREFIX,
    Header,
    check,
    checksum,
    corrupt,
    parse_header,
)
from replica.wire.compression import INFLATED_BYTES_MAX, Bytes, Codec, inflate
from replica.wire.records import repack
from zab.core.frozen import frozen

LONG_MAX: Final = (1 << 63) - 1
RECORDS_MAX: Final = 1_000_000
"""The default limit for records and record headers together in one batch. A few kilobytes may decompress to thirty
million headers."""
_MAGIC_AT: Final = 16
_ZSTD_SINCE: Final = 7
_DELTAS: Final = [varint.encode(number) for number in range(4096)]
"""The encoded offset deltas of a batch's first records, for comparison instead of decoding."""
_ONE_BYTE: Final = bytes(number << 1 for number in range(64))
_TWO_BYTES: Final = bytes(number << 1 & 0x7F | 0x80 for number in range(4096)), bytes(n >> 6 for n in range(4096))
"""The two-byte encodings of offset deltas in columns: the first byte of each, and the second byte of each."""
_TIMES: Final = bytes(range(0, 0x80, 2))
"""The encoded timestamp deltas that are not negative and take one byte."""
_ALIKE_LEAST: Final = 4
_NO_KEY: Final = "has no key, but the topic is compacted, which requires keys"
_TRIES: Final = 4
"""The number of failed searches for runs of records with the same layout, after which the search is given up."""


@frozen
class Rules:
    """The rules for the batches of one append: settings of the topic, and limits of the broker.

    inflated_bytes_max  the limit for the decompressed records of one batch
    records_max         the limit for records and record headers together in one batch
    many                True for a coordinator: it may append several batches at once, control batches, and batches with
                        a producer id but no sequence numbers
    """

    bytes_max: int = 1_048_588
    segment_bytes: int = 1 << 30
    compacted: bool = False
    append_time: bool = False
    before_max_ms: int = LONG_MAX
    after_max_ms: int = LONG_MAX
    inflated_bytes_max: int = INFLATED_BYTES_MAX
    records_max: int = RECORDS_MAX
    many: bool = False


@frozen
class Checked:
    """A valid batch: its position, its header, and the greatest timestamp of its records."""

    at: int
    header: Header
    max_timestamp: int


def validate(
    data: Bytes, rules: Rules, now_ms: int, *, check_records: bool = True, examined: ExaminedBatch | None = None
) -> list[Checked]:
    """Check the batches in `data`, and return them. Raises `KafkaError`, with an error code for the producer, if one of
    them is invalid.

    `examined`: the result of `examine` for `data`, which must then be a single batch.
    """
    checked: list[Checked] = []
    at = 0
    while at < len(data) or not checked:
        header = _framed(data, at, rules)
        if at and not rules.many:
            raise _invalid(
                f"{len(data) - at} bytes follow the batch, but a producer may send only one batch per partition in one "
                "request"
            )
        _check_size(header, rules)
        check(data, at)
        _check_header(header, rules)
        earliest, max_timestamp = header.base_timestamp, header.max_timestamp
        if check_records or rules.compacted:
            if examined is None or (rules.compacted and not examined.all_keyed and examined.refusal is None):
                least, greatest = _step(data, at, header, rules)
            else:
                least, greatest = _stepped(examined)
            if not rules.append_time and header.base_timestamp + least < -1:
                raise KafkaError(
                    ErrorCode.INVALID_TIMESTAMP, f"a record has the negative timestamp {header.base_timestamp + least}"
                )
            earliest = header.base_timestamp + least
            max_timestamp = max(-1, header.base_timestamp + greatest)
        if not rules.append_time:
            for timestamp in (header.base_timestamp, earliest, max_timestamp):
                if _is_too_far(timestamp, rules, now_ms):
                    raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"a record {_too_far(timestamp, rules, now_ms)}")
        checked.append(Checked(at, header, max_timestamp))
        at += header.size
    return checked


def examine(data: bytes, rules: Rules, codec: Codec | None = None) -> ExaminedBatch | None:
    """Do the slow part of `validate` for a client's batch. With `codec`, also compress the batch with it. Return None
    only if `validate` will refuse the batch by its header.

    A result does not mean that the batch is valid: `validate` may still refuse it, for example for its checksum.
    """
    if len(data) < HEADER_BYTES or data[_MAGIC_AT] != MAGIC:
        return None
    header = parse_header(data)
    if header.size != len(data) or header.size > rules.bytes_max or header.record_count <= 0:
        return None
    try:
        least, greatest = _step(data, 0, header, rules)
        if (
            codec is not None
            and codec != header.codec
            and not header.control
            and checksum(data, 0, header) == header.crc
        ):
            data = repack(data, codec, rules.inflated_bytes_max)
    except KafkaError as error:
        return ExaminedBatch(data, refusal=BatchRefusal(error.code, error.text))
    return ExaminedBatch(data, least, greatest, rules.compacted)


def refused_records(data: Bytes, rules: Rules, now_ms: int, most: int) -> tuple[tuple[int, str], ...]:
    """Return the first `most` records for whose key or timestamp `validate` refuses a client's batch, each as its index
    and the reason.

    The result is empty if the batch is refused for another reason. Slow, since the records are read one by one: use it
    only after a refusal.
    """
    found: list[tuple[int, str]] = []
    decode = varint.decode
    try:
        header = _framed(data, 0, rules)
        _check_header(header, rules)
        records = inflate(header.codec, memoryview(data)[HEADER_BYTES : header.size], rules.inflated_bytes_max)
        at = 0
        for number in range(min(header.record_count, rules.records_max)):
            if len(found) == most:
                break
            size, at = decode(records, at)
            if size < 0 or at + size > len(records):
                return ()
            delta, time_end = decode(records, at + 1)
            _, key_at = decode(records, time_end)
            timestamp = header.base_timestamp + delta
            if rules.compacted and decode(records, key_at)[0] < 0:
                found.append((number, _NO_KEY))
            elif rules.append_time:
                pass
            elif timestamp < -1:
                found.append((number, f"has the timestamp {timestamp}"))
            elif _is_too_far(timestamp, rules, now_ms):
                found.append((number, _too_far(timestamp, rules, now_ms)))
            at += size
    except (KafkaError, IndexError, ValueError):
        return ()
    return tuple(found)


def refuse_zstd_before(data: Bytes, produce_version: int) -> None:
    """Raise `KafkaError` if the batch is compressed with zstd, but the Produce version is older than zstd support."""
    if produce_version < _ZSTD_SINCE and len(data) >= HEADER_BYTES and parse_header(data).attributes & 7 == Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd is not allowed in Produce version {produce_version}: it requires version {_ZSTD_SINCE}",
        )


def _framed(data: Bytes, at: int, rules: Rules) -> Header:
    left = len(data) - at
    if left > _MAGIC_AT and data[at + _MAGIC_AT] != MAGIC:
        raise _invalid(
            f"records of magic {data[at + _MAGIC_AT]}: only magic {MAGIC} is accepted, which clients of Kafka 0.11 "
            "and later write"
        )
    size = PREFIX.unpack_from(data, at)[1] + PREFIX.size if left >= PREFIX.size else left + 1
    if left and size > left:
        raise corrupt(
            f"a batch is truncated after {left} of {size if left >= PREFIX.size else f'at least {HEADER_BYTES}'} bytes"
        )
    if size < HEADER_BYTES or left < HEADER_BYTES:
        raise _invalid(f"the size of the batch is {min(size, left)}, but the header alone needs {HEADER_BYTES} bytes")
    return parse_header(data, at)


def _check_size(header: Header, rules: Rules) -> None:
    if header.size > rules.bytes_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size} bytes: max.message.bytes is {rules.bytes_max}"
        )
    if header.size > rules.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {header.size} bytes: segment.bytes is {rules.segment_bytes}"
        )


def _check_header(header: Header, rules: Rules) -> None:
    """Raise `KafkaError` if the writer must not append a batch with this header (Kafka: LogValidator.validateBatch)."""
    if header.record_count <= 0 or header.record_count != header.last_delta + 1:
        raise _invalid(
            f"a batch declares {header.record_count} records and last offset delta {header.last_delta}: at least one "
            "record is required, and the delta must be one less than the number of records"
        )
    if header.control and not rules.many:
        raise _invalid("clients must not send control batches")
    if header.log_append_time and not rules.many:
        # Consumers would believe that the broker set the timestamp.
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "the batch has the flag for log append time, which only brokers may set"
        )
    if header.attributes & DELETE_HORIZON:
        raise _invalid("the batch has a delete horizon, which only the log cleaner may set")
    wrong = header.producer_epoch < 0 or (header.base_sequence < 0 and not rules.many)
    if header.producer_id >= 0 and not header.control and wrong:
        raise _invalid(
            f"a batch of producer {header.producer_id} has sequence {header.base_sequence} and epoch "
            f"{header.producer_epoch}, but negative values are not allowed"
        )
    if header.transactional and header.producer_id < 0:
        raise _invalid("the batch is transactional, but has no producer id")
    _ = header.codec  # raises if the codec is unknown


def _stepped(examined: ExaminedBatch) -> tuple[int, int]:
    if examined.refusal is not None:
        raise KafkaError(examined.refusal.code, examined.refusal.text)
    return examined.least_delta, examined.greatest_delta


def _step(data: Bytes, at: int, header: Header, rules: Rules) -> tuple[int, int]:
    """Return the smallest and greatest timestamp delta of the records. Raises `KafkaError` if they are invalid."""
    headers_max = rules.records_max - header.record_count
    if headers_max < 0:
        raise _too_many(header.record_count, rules)
    records = bytes(data[at + HEADER_BYTES : at + header.size])
    if header.attributes & 7:
        records = bytes(inflate(header.codec, records, rules.inflated_bytes_max))
    keys = rules.compacted and not header.control
    try:
        return step_through(records, header.record_count, keys=keys, headers_max=headers_max)
    except TooManyHeaders:
        raise _too_many(header.record_count, rules) from None
    except IndexError:
        raise _invalid("the records are truncated") from None
    except ValueError as error:
        raise _invalid(str(error)) from None


class TooManyHeaders(Exception):
    """The records of a batch have more headers than allowed."""


def step_through(data: bytes, count: int, *, keys: bool, headers_max: int = RECORDS_MAX) -> tuple[int, int]:
    """Return the smallest and greatest timestamp delta of `count` records. The record format is Kafka's (magic 2).

    Raises `ValueError` or `IndexError` if the records are malformed or not numbered in order, or if `keys` is True and
    a record has no key. Raises `TooManyHeaders` if they have more than `headers_max` headers.

    For a valid batch this is the only loop over single records in the produce path. Nearly all varints have one or two
    bytes, and these are decoded inline, because function calls would dominate the cost. Varints are zigzag-encoded, so
    odd ones are negative. After two records of the same size, `_alike` tries to check the next ones together.
    """
    at, end, number = 0, len(data), 0
    least, greatest = LONG_MAX, -LONG_MAX
    decode = varint.decode
    tries, length = _TRIES, 0
    while number < count:
        begin = at
        size = data[at]
        if size < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            size, at = size & 0x7F | high << 7, at + 2
        else:
            size, at = _folded(data, at)
        stop = at + (size >> 1)
        if size & 1 or stop > end:
            raise ValueError(f"record {number} declares {_unfolded(size)} bytes, but {end - at} are left")
        time_at = at + 1  # skip the attributes, which are unused
        delta = data[time_at]
        if delta < 0x80 and not delta & 1:
            at, delta = at + 2, delta >> 1
        else:
            delta, at = decode(data, at + 1)
        if delta < least:
            least = delta
        if delta > greatest:
            greatest = delta
        number_at = at
        if number < 64 and data[at] == number << 1:
            at += 1
        elif number < 4096 and data.startswith(_DELTAS[number], at):
            at += 2 if number >= 64 else 1
        else:
            found, at = decode(data, at, 32)
            if found != number:
                raise ValueError(f"record {number} has offset delta {found}, but {number} is expected")
        key_at = at
        size = data[at]  # of the key
        if size == 1:
            at += 1
            if keys:
                raise ValueError(f"record {number} {_NO_KEY}")
        elif size < 0x80 and not size & 1:
            at += 1 + (size >> 1)
        else:
            size, at = decode(data, at, 32)
            if size < 0:
                raise ValueError(f"record {number} has a key of the negative size {size}")
            at += size
        value_at = at
        size = data[at]  # of the value
        if size < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            size, at = size & 0x7F | high << 7, at + 2
        else:
            size, at = _folded(data, at)
        value_begins = at
        if not size & 1:
            at += size >> 1
        if at >= stop or data[at]:
            at, held = _step_over_headers(data, at, stop, number, headers_max)
            headers_max -= held
            plain = False
        else:
            at += 1
            plain = True
        if at != stop:
            raise ValueError(f"record {number} ends at byte {stop}, but its fields end at byte {at}")
        number += 1
        before, length = length, stop - begin
        if length == before and tries and plain and number_at == time_at + 1:
            if key_at - number_at != (1 if number <= 64 else 2) or data[key_at] > 0x7F:
                continue  # `_alike` expects an offset delta of minimal length, and a key size of one byte
            heads = (*range(begin, time_at - 1), key_at, *range(value_at, value_begins), stop - 1)
            times = _alike(data, begin, stop, number, count, heads, time_at, number_at)
            if times:
                least, greatest = min(least, min(times) >> 1), max(greatest, max(times) >> 1)
                number += len(times)
                at += len(times) * length
            else:
                tries -= 1
    if at != end:
        raise ValueError(f"{end - at} bytes after the last of {count} records")
    return least, greatest


def _alike(
    data: bytes, begin: int, stop: int, number: int, count: int, heads: Iterable[int], time_at: int, number_at: int
) -> bytes:
    """Return the encoded timestamp deltas of the run of records after the one at `begin` that have the same layout.

    Such a record has the same bytes at the positions `heads` (the sizes and the number of headers), the next offset
    delta, and a timestamp delta in `_TIMES`. The bytes of all records at the same position form a slice, so they are
    compared together. The result is empty for a short run.
    """
    step = stop - begin
    most = min(count - number, (len(data) - stop) // step, (64 if number <= 64 else 4096) - number)
    for place in heads:
        if most < _ALIKE_LEAST:
            return b""
        column = data[place + step : place + step * most + 1 : step]
        most -= len(column.lstrip(data[place : place + 1]))
    columns = [_ONE_BYTE] if number <= 64 else _TWO_BYTES
    for index, numbers in enumerate(columns):
        place = number_at + index
        if data[place + step : place + step * most + 1 : step] != numbers[number : number + most]:
            return b""  # an error or another layout; the caller's loop decides
    times = data[time_at + step : time_at + step * most + 1 : step]
    most -= len(times.lstrip(_TIMES))
    return times[:most] if most >= _ALIKE_LEAST else b""


def _folded(data: bytes, at: int) -> tuple[int, int]:
    return varint.decode_unsigned(data, at, 32)


def _unfolded(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _step_over_headers(data: bytes, at: int, stop: int, number: int, headers_max: int) -> tuple[int, int]:
    """Return the position of the next record, and the number of this record's headers."""
    count, at = varint.decode(data, at, 32)
    if not 0 <= count <= stop - at:
        raise ValueError(f"record {number} declares {count} headers, but {stop - at} bytes are left")
    if count > headers_max:
        raise TooManyHeaders
    for _ in range(count):
        size, at = varint.decode(data, at, 32)
        if size < 0:
            raise ValueError(f"record {number} has a header without a key")
        at += size
        size, at = varint.decode(data, at, 32)
        at += max(0, size)
    return at, count


def _is_too_far(timestamp: int, rules: Rules, now_ms: int) -> bool:
    """Return whether a timestamp is outside the topic's bounds. The value -1, no timestamp, is never outside.

    A timestamp far in the future would protect its segment from time-based retention until then.
    """
    return timestamp >= 0 and (now_ms - timestamp > rules.before_max_ms or timestamp - now_ms > rules.after_max_ms)


def _too_far(timestamp: int, rules: Rules, now_ms: int) -> str:
    return (
        f"has the timestamp {timestamp}, too far from {now_ms}: "
        f"message.timestamp.before.max.ms is {rules.before_max_ms}, "
        f"message.timestamp.after.max.ms is {rules.after_max_ms}"
    )


def _too_many(count: int, rules: Rules) -> KafkaError:
    text = (
        f"a batch of {count} records: {rules.records_max} are allowed, including record headers; send smaller batches"
    )
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, text)
