"""Checks of a segment's time index against the segment's batches, before the index is relied on.

An index is only a hint. A damaged entry may cost time, but must never cause a segment to be deleted early or a search
to skip a record. If the batches contradict an index, both indexes are rebuilt.
"""

from __future__ import annotations

from replica.storage.files import DamagedLog, MissingFile
from replica.storage.log_segment import INDEX, LogSegment
from replica.storage.segment_indexes import OffsetIndex, decode_position


def newest(segment: LogSegment, kept_since: int) -> int:
    """Return the greatest timestamp of a segment. If it is older than `kept_since`, verify it with the batches, because
    the caller deletes a segment that is so old."""
    time = segment.greatest()[0]
    return time if time >= kept_since else greatest(segment)[0]


def ends_before(segment: LogSegment, timestamp: int) -> bool:
    """Return whether all records of a segment have timestamps before `timestamp`. Verify True with the batches."""
    return segment.greatest()[0] < timestamp and greatest(segment)[0] < timestamp


def greatest(segment: LogSegment) -> tuple[int, int]:
    """Return the greatest timestamp of a segment, and the last offset of the first batch that has it.

    The last entry of the time index is accepted if its batch has that timestamp and no later batch has a greater one.
    The check is repeated only after a truncation, and usually reads only the end of the segment.
    """
    time, offset = segment.greatest()
    if segment.max_is_unchecked:
        if not (_is_at_the_end(segment, time, offset) or _is_somewhere(segment, time, offset)):
            segment.rebuild()
        segment.max_is_unchecked = False
    return segment.greatest()


def first_position(segment: LogSegment, timestamp: int) -> int:
    """Return the position of a batch before which all records have timestamps earlier than `timestamp`."""
    position = _position_before(segment, timestamp)
    if position is None and not segment.indexes_are_rebuilt:
        segment.rebuild()
        position = _position_before(segment, timestamp)
    return position or 0


def _position_before(segment: LogSegment, timestamp: int) -> int | None:
    """Return the position of the batch that the last time-index entry before `timestamp` refers to.

    Return 0 if there is no such entry, and None if the entry contradicts the batches.
    """
    entry = segment.times.before(timestamp)
    if entry is None:
        return 0
    time, offset = entry[0], segment.base + entry[1]
    found = segment.locate(offset)
    if found is None or found[1].base_offset > offset or found[1].max_timestamp != time:
        return None
    return found[0]


def _is_at_the_end(segment: LogSegment, time: int, offset: int) -> bool:
    """Check only the last batches: return whether the batch of `offset` is among them and has the timestamp `time`, and
    none of them has a later one. Load no index, since a log may have thousands of segments."""
    try:
        return _none_is_later(segment, _last_position(segment), time, offset)
    except DamagedLog:
        return False


def _is_somewhere(segment: LogSegment, time: int, offset: int) -> bool:
    found = segment.locate(offset)
    return found is not None and _none_is_later(segment, found[0], time, offset)


def _none_is_later(segment: LogSegment, position: int, time: int, offset: int) -> bool:
    """Return whether the batch of `offset` is at or after `position` and has timestamp `time`, and no batch from
    `position` on has a later timestamp."""
    met = False
    for _, header in segment.headers(position):
        if header.max_timestamp > time:
            return False
        if not met and header.last_offset >= offset:
            if header.base_offset > offset or header.max_timestamp != time:
                return False
            met = True
    return met


def _last_position(segment: LogSegment) -> int:
    """Return the position in the last entry of the offset index, near the end of the segment; 0 if it is not valid."""
    try:
        file = segment.handles.files.open(segment.path(INDEX))
    except MissingFile:
        return 0
    try:
        at = file.size() - OffsetIndex.ENTRY_BYTES
        position = decode_position(file.read(at, OffsetIndex.ENTRY_BYTES)) if at >= 0 else 0
    finally:
        file.close()
    return position if 0 <= position < segment.size else 0
