"""Which transactions were aborted, to the byte as in Kafka's `.txnindex`: beside each segment those that end in it.

Whoever reads only what was committed is told of them with the records, and passes over theirs. So a missing entry
shows somebody what never was to be; all of them can be made again from the batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import Final

from replica.core.partition_log import AbortedTxn

ABORTED: Final = ".txnindex"
"""A closed segment of a log in which transactions have ended has one, be it empty; no other one need have it."""
_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_end: Final = attrgetter("last_offset")


def encode(entries: Sequence[AbortedTxn]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *each) for each in entries)


def decode(data: bytes) -> list[AbortedTxn]:
    """`ValueError` where these are not the bytes of such a file."""
    entries = decode_sound(data)
    if len(entries) * ENTRY_BYTES != len(data):
        raise ValueError(f"{len(data)} bytes, and only the first {len(entries)} entries make sense")
    return entries


def decode_sound(data: bytes) -> list[AbortedTxn]:
    """As far as it makes sense: of a file whose end a loss of power may have harmed."""
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


def among(entries: Sequence[AbortedTxn], offset: int, upto: int) -> tuple[list[AbortedTxn], bool]:
    """Those that touch what lies between, and whether there are none behind these: entries are in the order in which
    the transactions ended, and each knows where the oldest began that was open then."""
    found = []
    for at in range(bisect_left(entries, offset, key=_end), len(entries)):
        entry = entries[at]
        if entry.first_offset < upto:
            found.append(entry)
        if entry.stable_offset >= upto:
            return found, True
    return found, False
