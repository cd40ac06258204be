"""What a log knows of producers and of transactions, as it is found again.

Lists of aborted transactions stand beside the segments, and a reader who lacks an entry is shown what never was to be.
So one that should be there and is not is made again from the batches; and of what is behind the recovery point nothing
is believed: a list may have lost an entry there, or have one of an end that was lost.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from replica.storage.file_log import FileLog
from replica.storage.files import MissingFile
from replica.storage.growing_log import SNAPSHOT
from replica.storage.producers import Producers
from replica.storage.segment import Segment, file_name
from replica.storage.segments_log import replay
from zab.storage.disk import read_all


def restore(log: FileLog, names: Collection[str], point: int, *, ends: bool) -> None:
    """names   of the files that were found
    point   before it everything was durable
    ends    behind it stands an end of a transaction
    """
    log.producers = log._producers_at(log.end_offset)
    segments = log.segments
    point = max(point, segments[0].base)
    for segment in _missing(log, segments, names, point):
        log.find_aborted(segment)
        log.notes.append(f"{file_name(segment.base, '')} has no list of aborted transactions: it is made again")
        log.changed_beside()
    behind = [each for each in segments if each.end > point or each is segments[-1]]
    if ends or any(each.has_aborted for each in behind):
        for each in behind:
            log._aborted_in(each)  # and made again, where it makes no sense
            each.cut_aborted(point)
            _forget_torn(each)
        for aborted in replay(log._producers_at(point), segments, point, log.end_offset):
            log._keep_aborted(aborted)


def _forget_torn(segment: Segment) -> None:
    """A loss of power leaves whole sectors, and an entry may lie in two. The last one that is right is a proof of all
    before it, which were written and made durable earlier."""
    entries = segment.aborted
    for entry in reversed(entries):
        found = segment.locate(entry.last_offset) if segment.size else None
        if found is not None and found[1].control and found[1].producer_id == entry.producer_id:
            break
        segment.cut_aborted(entry.last_offset)


def _missing(log: FileLog, segments: list[Segment], names: Collection[str], point: int) -> list[Segment]:
    """A list was kept of a segment before any of it was durable, if a transaction had ended in the log by then."""
    if not (log.producers.any_ended or any(each.has_aborted for each in segments)):
        return []
    last = segments[-1]
    found = [
        one
        for one, following in pairwise(segments)
        if one.base < point and not one.has_aborted and _had_ended(log, names, following.base)
    ]
    if last.size and last.base < point and not last.has_aborted and log.producers.any_ended:
        found.append(last)
    return found


def _had_ended(log: FileLog, names: Collection[str], offset: int) -> bool:
    name = file_name(offset, SNAPSHOT)
    if name not in names:
        return False
    try:
        return Producers.decode(read_all(log.files, f"{log.folder}/{name}")).any_ended
    except (ValueError, MissingFile):
        return False
