"""What the files of times say, looked after in the batches before something hangs on it.

An index is only a hint, and a wrong one costs time and nothing else: nothing is deleted, and nothing is passed over,
because of a number that has rotted. Where the batches say something else, both indexes are made again.
"""

from __future__ import annotations

from replica.storage.files import DamagedLog, MissingFile
from replica.storage.index import OffsetIndex, decode_place
from replica.storage.segment import INDEX, Segment


def newest(segment: Segment, kept_since: int) -> int:
    """The greatest time in it, for who deletes for good what is older than that."""
    time = segment.greatest()[0]
    return time if time >= kept_since else greatest(segment)[0]


def ends_before(segment: Segment, timestamp: int) -> bool:
    """No record in it is as late as that."""
    return segment.greatest()[0] < timestamp and greatest(segment)[0] < timestamp


def greatest(segment: Segment) -> tuple[int, int]:
    """As `Segment.greatest`. What an index says of it is believed when the batch that it names says so too, and none
    behind it is later. That is looked after once, and mostly by a look at the end."""
    time, offset = segment.greatest()
    if segment.max_is_hearsay:
        if not (_is_at_the_end(segment, time, offset) or _is_somewhere(segment, time, offset)):
            segment.rebuild()
        segment.max_is_hearsay = False
    return segment.greatest()


def first_place(segment: Segment, timestamp: int) -> int:
    """Where a batch begins before which no record is as late as that."""
    place = _place_before(segment, timestamp)
    if place is None and not segment.indexes_are_made:
        segment.rebuild()
        place = _place_before(segment, timestamp)
    return place or 0


def _place_before(segment: Segment, timestamp: int) -> int | None:
    """None: the batch that the index names there has another time than the index says."""
    entry = segment.times.before(timestamp)
    if entry is None:
        return 0
    time, offset = entry[0], segment.base + entry[1]
    found = segment.locate(offset)
    if found is None or found[1].base_offset > offset or found[1].max_timestamp != time:
        return None
    return found[0]


def _is_at_the_end(segment: Segment, time: int, offset: int) -> bool:
    """Told without loading its indexes: there may be thousands. False also where it stands further in front."""
    try:
        return _nobody_is_later(segment, _last_place(segment), time, offset)
    except DamagedLog:
        return False


def _is_somewhere(segment: Segment, time: int, offset: int) -> bool:
    found = segment.locate(offset)
    return found is not None and _nobody_is_later(segment, found[0], time, offset)


def _nobody_is_later(segment: Segment, place: int, time: int, offset: int) -> bool:
    """From that place on, where the batch with this offset stands, and has this time."""
    met = False
    for _, header in segment.headers(place):
        if header.max_timestamp > time:
            return False
        if not met and header.last_offset >= offset:
            if header.base_offset > offset or header.max_timestamp != time:
                return False
            met = True
    return met


def _last_place(segment: Segment) -> int:
    """Where, by the end of the file of places, one of the last batches begins."""
    try:
        file = segment.handles.files.open(segment.path(INDEX))
    except MissingFile:
        return 0
    try:
        at = file.size() - OffsetIndex.ENTRY_BYTES
        position = decode_place(file.read(at, OffsetIndex.ENTRY_BYTES)) if at >= 0 else 0
    finally:
        file.close()
    return position if 0 <= position < segment.size else 0
