"""Record batches: whatever passes for good can be read, and keeps its meaning when it is written again."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from replica.core.errors import KafkaError
from replica.wire.batch import HEADER_BYTES, parse_header, seal, walk
from replica.wire.compression import Codec
from replica.wire.records import Record, build, read_records
from replica.wire.validation import Rules, validate
from tests.fuzz.target import Target

_NOW: Final = 1_700_000_000_000
_INFLATED_BYTES_MAX: Final = 1 << 20
_RULES: Final = Rules(inflated_bytes_max=_INFLATED_BYTES_MAX)
_RECORDS: Final = [Record(0, _NOW, b"k", b"v"), Record(1, _NOW + 900, None, b"w" * 70, (("h", b"x"), ("n", None)))]
_SEEDS: Final = [build(_RECORDS, codec=codec) for codec in Codec]


def _batch(data: bytes) -> bool:
    with suppress(KafkaError):
        [checked] = validate(data, _RULES, _NOW)
        records = list(read_records(data, bytes_max=_INFLATED_BYTES_MAX))
        assert len(records) == checked.header.record_count
        assert [each.offset for each in records] == [checked.header.base_offset + n for n in range(len(records))]
        if checked.header.base_offset >= 0:
            again = build(records, base_timestamp=checked.header.base_timestamp)
            assert list(read_records(again)) == records or checked.header.log_append_time
        return True
    return False


def _sealed(data: bytes) -> bool:
    """Add a matching checksum, so that noise passes the first check."""
    if len(data) < HEADER_BYTES:
        return _batch(data)
    header = parse_header(data)
    return _batch(
        seal(header._replace(length=len(data) - 12, magic=2, record_count=2, last_delta=1), data[HEADER_BYTES:])
    )


def _walk(data: bytes) -> bool:
    with suppress(KafkaError):
        at = 0
        for at, header in walk(data):
            assert at + header.size <= len(data)
        return at > 0
    return False


TARGETS: Final = {
    "batch": Target(_batch, _SEEDS),
    "sealed batch": Target(_sealed, _SEEDS),
    "batches": Target(_walk, [_SEEDS[0] + _SEEDS[1]]),
}
