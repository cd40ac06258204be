"""Torn or corrupt: the one question at the end of a log on which acknowledged writes depend.

A record that was being written when the server died was promised to nobody: it is cut off and forgotten. A
record that was durable and cannot be read any more may have been promised: it must not be forgotten, so the
server says so and heals. Taking the second for the first loses writes; taking the first for the second makes
a power failure of the whole ensemble a permanent one, as nobody is left to heal from.

Only what was written since the last sync can be torn, and the file read zeros there before. So a record is
torn if it stands in the last segment and both hold:

* No record behind it says that it was durable (`synced`). Within one group of records written between two
  syncs the disk may keep the later and lose the earlier: a sound record behind the bad one proves nothing
  by itself.
* The damage looks like something that was not written: a whole sector's share of the record is zeros, or
  nothing but zeros follows from some byte inside it to the end of the file.

What remains is one ambiguity: damage at rest to the very last group, of a server that did not close its log
properly, in a record that has a whole sector of zeros in it. It is taken for torn.
"""

from __future__ import annotations

from zab.core.zxid import Zxid
from zab.storage.disk import SECTOR
from zab.storage.segment import MARK, OVERHEAD, RECORD_HEAD, Segment, decode_record_head


def contradiction(data: bytes, segment: Segment, at: int, last: Zxid) -> str | None:
    """Why the unreadable record at this offset, behind `last`, is not torn; None when it is."""
    head = decode_record_head(data, at, segment.seed)
    end = at + RECORD_HEAD if head is None else at + OVERHEAD + head.length
    if (witness := _witness(data, segment, at, last)) is not None:
        return f"it was durable: the record at offset {witness} was written after that"
    if _has_unwritten_sector(data, at, end) or _stops_short(data, at, end):
        return None
    return "it was written to its end, so no crash explains it"


def _witness(data: bytes, segment: Segment, at: int, last: Zxid) -> int | None:
    """A record behind this one that was written when this one was durable already."""
    found = data.find(MARK, at + 1)
    while found >= 0:
        head = decode_record_head(data, found, segment.seed)
        if head is not None and head.synced > at and head.previous >= last:
            return found
        found = data.find(MARK, found + 1)
    return None


def _has_unwritten_sector(data: bytes, start: int, end: int) -> bool:
    """Whether some sector's share of [start, end) is all zeros. What lies behind the end of the file is zeros."""
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        if not data[start:stop].strip(b"\0"):
            return True
        start = stop
    return False


def _stops_short(data: bytes, start: int, end: int) -> bool:
    """Whether the last byte of [start, end), and with it everything behind, was never written.

    The last byte of a record is its end mark, which is not zero; the last byte of a torn header may be
    anything, but then a body would follow, and no body is all zeros.
    """
    return not data[end - 1 :].strip(b"\0")
