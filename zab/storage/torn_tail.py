"""Decide whether an unreadable record at the end of the log is torn or damaged.

A record that was being written when the server died was never acknowledged: it is torn and is cut off. A record that
was durable and became unreadable may have been acknowledged: it must not be dropped, so the server reports damage and
waits for a snapshot from the leader. To take damage for a torn record would lose acknowledged writes. To take torn
records for damage would turn a power failure of the whole ensemble into a permanent outage, because no server with a
sound history is left.

Only bytes written since the last sync can be torn. Before these bytes were written, the file had zeros there, or ended
there. So a record is taken for torn if it is in the last segment and both conditions hold:

- No later record says that this one was durable (`synced`). A sound record after it alone proves nothing: of the
  records written between two syncs, the disk may keep a later one and lose an earlier one.
- The damage looks like missing writes: the record's part of some sector is all zeros, or all bytes from some byte
  inside the record to the end of the file are zeros.

One case remains ambiguous. The log was not closed properly, so the epochs record does not name the end of the log. The
last group was durable, and later damage hits a record of this group whose part of some sector is all zeros. The record
is then taken for torn.
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
        return f"it was durable when the record at offset {witness} was written"
    if _has_unwritten_sector(data, at, end) or _stops_short(data, at, end):
        return None
    return "it was written to its end, so no crash explains the damage"


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
    """Return whether the part of [start, end) in some sector is all zeros. Bytes beyond the file's end are zeros."""
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        if not data[start:stop].strip(b"\0"):
            return True
        start = stop
    return False


def _stops_short(data: bytes, start: int, end: int) -> bool:
    """Return whether the last byte of [start, end) and all bytes after it are zeros, and so were never written.

    The range is a record, or only the record's header if that is unreadable. The last byte of a record is its end mark,
    which is not zero. The last byte of a header may be zero, but an end mark follows after the body.
    """
    return not data[end - 1 :].strip(b"\0")
