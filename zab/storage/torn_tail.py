"""Torn or corrupt: the decision at the end of a log on which acknowledged writes depend.

A record that was being written when the server died was never acknowledged: it is cut off. A record that was durable
and became unreadable may have been acknowledged: it must not be dropped, so the server reports damage and heals.
Mistaking the second for the first loses writes. Mistaking the first for the second turns a power failure of the whole
ensemble into a permanent outage, because no server is left to heal from.

Only bytes written since the last sync can be torn, and the file read zeros there before. So a record is torn if it
stands in the last segment and both conditions hold:

- No record after it claims that it was durable (`synced`). Among the records written between two syncs the disk may
  keep the later and lose the earlier: a sound record after the bad one alone proves nothing.
- The damage looks like missing writes: a whole sector's share of the record is zeros, or only zeros follow from some
  byte inside it to the end of the file.

One ambiguity remains: damage at rest to the very last group, of a server that did not close its log properly, in a
record that contains a whole sector of zeros. It is taken for torn.
"""

from __future__ import annotations

from zab.core.zxid import Zxid
from zab.storage.disk import SECTOR
from zab.storage.segment import MARK, OVERHEAD, RECORD_HEAD, Segment, decode_record_head


def contradiction(data: bytes, segment: Segment, at: int, last: Zxid) -> str | None:
    """Return the reason why the unreadable record at this offset, after `last`, is not torn; None if it is torn."""
    head = decode_record_head(data, at, segment.seed)
    end = at + RECORD_HEAD if head is None else at + OVERHEAD + head.length
    if (witness := _witness(data, segment, at, last)) is not None:
        return f"it was durable: the record at offset {witness} was written after that"
    if _has_unwritten_sector(data, at, end) or _stops_short(data, at, end):
        return None
    return "it was written to its end, so no crash explains it"


def _witness(data: bytes, segment: Segment, at: int, last: Zxid) -> int | None:
    """Return the offset of a later record that was written when this one was durable already, or None."""
    found = data.find(MARK, at + 1)
    while found >= 0:
        head = decode_record_head(data, found, segment.seed)
        if head is not None and head.synced > at and head.previous >= last:
            return found
        found = data.find(MARK, found + 1)
    return None


def _has_unwritten_sector(data: bytes, start: int, end: int) -> bool:
    """Return whether some sector's share of [start, end) is all zeros. Bytes after the file's end count as zeros."""
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        if not data[start:stop].strip(b"\0"):
            return True
        start = stop
    return False


def _stops_short(data: bytes, start: int, end: int) -> bool:
    """Return whether the last byte of [start, end), and with it everything after, was never written.

    The last byte of a record is its end mark, which is not zero. The last byte of a torn header may be anything, but
    then a body would follow, and no body is all zeros.
    """
    return not data[end - 1 :].strip(b"\0")
