"""The aborted transactions whose markers are in one segment, in the format of Kafka's `.txnindex`.

A `read_committed` consumer gets the entries with the records, and skips the aborted records. If an entry were missing,
the consumer would deliver aborted records. All entries can be rebuilt from the batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import Final

from replica.core.partitions.partition_log import AbortedTxn

ABORTED: Final = ".txnindex"
"""The suffix of the index file. Once a transaction has completed in a log, each segment has one, perhaps empty, when it
is closed. Earlier segments may lack it."""
_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_end: Final = attrgetter("last_offset")


def encode(entries: Sequence[AbortedTxn]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in entries)


def decode(data: bytes) -> list[AbortedTxn]:
    """Decode a whole file. Raises `ValueError` if any entry is malformed."""
    entries = decode_sound(data)
    if len(entries) * ENTRY_BYTES != len(data):
        raise ValueError(
            f"only the first {len(entries)} entries are valid: {len(entries) * ENTRY_BYTES} of {len(data)} bytes"
        )
    return entries


def decode_sound(data: bytes) -> list[AbortedTxn]:
    """Decode a file up to the first malformed entry. A power loss may have damaged its end."""
    entries: list[AbortedTxn] = []
    for version, *fields in _ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES]):
        entry = AbortedTxn(*fields)
        if (
            version != _VERSION
            or entry.producer_id < 0
            or not 0 <= entry.first_offset < entry.last_offset
            or (entries and entry.last_offset <= entries[-1].last_offset)
        ):
            break
        entries.append(entry)
    return entries


def overlapping(entries: Sequence[AbortedTxn], offset: int, upto: int) -> tuple[list[AbortedTxn], bool]:
    """Return the entries that overlap the offsets from `offset` to `upto`, and whether no later entry can overlap them.

    Entries are in the order of their markers. An entry's stable offset is the start of the oldest transaction that
    is still open after its marker, or else the offset after the marker. So no later entry starts before that offset.
    """
    found = []
    for at in range(bisect_left(entries, offset, key=_end), len(entries)):
        entry = entries[at]
        if entry.first_offset < upto:
            found.append(entry)
        if entry.stable_offset >= upto:
            return found, True
    return found, False
