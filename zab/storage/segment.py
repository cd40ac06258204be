"""One file of the log: its header, its records, and the loop that reads them back. Sizes in bytes, big-endian:

    file      magic 8, version 2, allocated 8, previous 8, first 8, CRC-32 of that 4; then records, then zeros
    record    magic 2, kind 1, length 4, previous 8, first 8, count 4, synced 4, CRC-32 of the body 4,
              CRC-32 of that 4; body; end mark 1

`previous` is the zxid right before `first`. It reveals a missing record, in a file and between files. `synced` is the
durable size of this file when the record was written: if a record before that offset is unreadable, it was damaged.
The checksum of a record's header starts from the sum of the file header's checksum and the record's offset, so that a
record in the wrong place is not accepted.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from attrs import define, field, frozen

from zab.core.batch import Batch
from zab.core.errors import DamagedError
from zab.core.zxid import COUNTER_MAX, NOTHING, Zxid, counter_of, follows, show
from zab.storage.disk import other_version

MARK: Final = b"\xb2\xe7"
END: Final = b"\xed"
PREFIX: Final = "log."

_MAGIC: Final = b"zab.log\n"
_VERSION: Final = 1
_FILE: Final = Struct(">8sHQQQ")
_RECORD: Final = Struct(">2sBIQQIII")
_CRC: Final = Struct(">I")
_WHOLE: Final = Struct(">2sBIQQIIII")
_BATCH: Final = 1
CONFIG: Final = 2

FILE_HEAD: Final = _FILE.size + _CRC.size
RECORD_HEAD: Final = _WHOLE.size
OVERHEAD: Final = RECORD_HEAD + len(END)
"""The size of a record without its body."""


def name_of(first: Zxid) -> str:
    return f"{PREFIX}{first:x}"


@frozen
class Segment:
    """The header of a file of the log."""

    first: Zxid
    """The first zxid in the file; the file is named after it."""
    previous: Zxid
    """The last zxid before the file; less than `first`."""
    allocated: int
    """The size allocated at the file's creation, or 0. If the file is shorter, its end was lost."""
    seed: int
    """The checksum of this header. The checksum of a record's header starts from it plus the record's offset."""

    @property
    def name(self) -> str:
        return name_of(self.first)


def encode_segment(first: Zxid, previous: Zxid, allocated: int) -> tuple[Segment, bytes]:
    head = _FILE.pack(_MAGIC, _VERSION, allocated, previous, first)
    seed = crc32(head)
    return Segment(first, previous, allocated, seed), head + _CRC.pack(seed)


def decode_segment(name: str, data: bytes) -> Segment:
    if len(data) < FILE_HEAD:
        raise DamagedError(f"{name}: {len(data)} bytes, shorter than its header")
    magic, version, allocated, previous, first = _FILE.unpack_from(data)
    seed = crc32(data[: _FILE.size])
    if seed != _CRC.unpack_from(data, _FILE.size)[0]:
        raise DamagedError(f"{name}: offset 0: the checksum of the file's header is wrong")
    if magic != _MAGIC:
        raise DamagedError(f"{name}: offset 0: {magic!r} is not the start of a log file")
    if version != _VERSION:
        raise other_version(name, version, _VERSION)
    segment = Segment(Zxid(first), Zxid(previous), allocated, seed)
    if segment.name != name:
        raise DamagedError(f"{name}: offset 0: the header says that this is {segment.name}")
    if len(data) < allocated:
        raise DamagedError(f"{name}: {len(data)} bytes, but {allocated} were allocated: the end was cut off")
    return segment


def guess_segment(first: Zxid, data: bytes) -> Segment | None:
    """Reconstruct the header of a file whose header is damaged or whose end is missing, to salvage its records.

    The file's name has the first zxid, and the first record names the zxid before it. The checksums of records start
    from the checksum of the file's header. Damage may have hit that header or its stored checksum, so both are tried:
    the checksum of the header as it is, and the stored one. Return None if the first record matches neither.
    """
    if len(data) < FILE_HEAD:
        return None
    for seed in (crc32(data[: _FILE.size]), int(_CRC.unpack_from(data, _FILE.size)[0])):
        head = decode_record_head(data, FILE_HEAD, seed)
        if head is not None:
            return Segment(first, head.previous, len(data), seed)
    return None


def encode_record(batch: Batch, previous: Zxid, synced: int, at: int, seed: int) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the pieces to write at offset `at`. The body is not copied."""
    body = batch.body
    kind = CONFIG if batch.config else _BATCH
    head = _RECORD.pack(MARK, kind, len(body), previous, batch.first, batch.count, synced, crc32(body))
    return head, _CRC.pack(crc32(head, seed + at & 0xFFFF_FFFF)), body, END


@frozen
class RecordHead:
    length: int
    previous: Zxid
    synced: int


def decode_record_head(data: bytes, at: int, seed: int) -> RecordHead | None:
    """Return the header at this offset if it is sound, even if the body is not; else None."""
    head = data[at : at + RECORD_HEAD]
    if len(head) < RECORD_HEAD:
        return None
    mark, _kind, length, previous, _first, _count, synced, _body_sum, head_sum = _WHOLE.unpack(head)
    if mark != MARK or crc32(head[: _RECORD.size], seed + at & 0xFFFF_FFFF) != head_sum:
        return None
    return RecordHead(length, Zxid(previous), synced)


@define
class SegmentScan:
    """The result of `scan`: the records of a file up to `until`, or up to the first bytes that are not a valid record.

    batches     the batches that end after `after`
    end         offset after the last record
    last_at     offset of the last record
    last        the zxid that the last record reaches
    synced      the durable size of the file when the last record was written
    epoch_ends  the last zxid at or before `after` of every epoch in the file; ascending
    skipped     offset and last zxid of records with a damaged body that do not reach beyond `after`
    trouble     the reason why the scan stopped, or None at the clean end of the records or at `until`
    misplaced   True if the trouble is a record with a sound header, but in a wrong place or with impossible fields; a
                crash cannot cause this
    """

    end: int
    last: Zxid
    last_at: int = FILE_HEAD
    synced: int = FILE_HEAD
    batches: list[Batch] = field(factory=list)
    epoch_ends: list[Zxid] = field(factory=list)
    skipped: list[tuple[int, Zxid]] = field(factory=list)
    trouble: str | None = None
    misplaced: bool = False


def scan(data: bytes, segment: Segment, *, after: Zxid = NOTHING, until: Zxid | None = None) -> SegmentScan:
    """Read the records of one file in order, until a record is not sound, `until` is reached or zeros follow.

    A record is sound if its checksums match, its fields are possible, and it follows the record before it. A record
    that ends at or before `after` may have a damaged body: it is skipped, because the caller does not need it. The loop
    runs for each batch at every start, so it calls no functions that it can avoid.

    The records have the layout at the top of this module. `torn_tail` decides whether the first unsound record is torn
    or damaged.
    """
    seed, last, at = segment.seed, segment.previous, FILE_HEAD
    found = SegmentScan(at, last)
    keep = found.batches.append
    ends: dict[int, Zxid] = {}
    last_at = synced = FILE_HEAD
    size = len(data)
    while at + OVERHEAD <= size:
        mark, kind, length, previous, first, count, durable, body_sum, head_sum = _WHOLE.unpack_from(data, at)
        if mark != MARK or crc32(data[at : at + _RECORD.size], seed + at & 0xFFFF_FFFF) != head_sum:
            break
        body_at = at + RECORD_HEAD
        end = body_at + length
        if end >= size:
            found.trouble = f"the record is {length} bytes long, which is more than the file holds"
            break
        if previous != last or not _sensible(kind, first, count, last) or durable > at:
            found.trouble = (
                f"a sound record that should follow {show(previous)}, but comes after {show(last)}"
                if previous != last
                else f"a sound record with impossible fields: kind {kind}, {count} transactions from {show(first)}, "
                f"{durable} bytes of the file were durable"
            )
            found.misplaced = True
            break
        body = data[body_at:end]
        reaches = Zxid(first + count - 1)
        if crc32(body) != body_sum or data[end] != END[0]:
            if reaches > after:
                found.trouble = f"the checksum of the record at {show(first)} is wrong"
                break
            found.skipped.append((at, reaches))
        last, last_at, synced, at = reaches, at, durable, end + 1
        if reaches > after:
            keep(Batch(first, count, body, kind == CONFIG))
            if first <= after:
                ends[first >> 32] = after
        else:
            ends[first >> 32] = reaches
        if until is not None and reaches >= until:
            break
    found.end, found.last, found.last_at, found.synced = at, last, last_at, synced
    found.epoch_ends.extend(ends.values())
    if found.trouble is None and (until is None or last < until) and data[at:] != bytes(size - at):
        found.trouble = "no sound record header"
    return found


def _sensible(kind: int, first: int, count: int, last: Zxid) -> bool:
    return (
        (kind == _BATCH or (kind == CONFIG and count == 1))
        and count > 0
        and counter_of(Zxid(first)) + count - 1 <= COUNTER_MAX
        and follows(Zxid(first), last)
    )
