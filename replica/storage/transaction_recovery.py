"""Recovery of the producer state and the transaction indexes at the start of a broker.

If a transaction index lacked an entry, a `read_committed` consumer would deliver aborted records. So a missing index is
rebuilt from the batches. Entries after the recovery point are not trusted: a power loss may have removed one, or kept
one whose marker is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from replica.storage.files import MissingFile
from replica.storage.log_segment import LogSegment, file_name
from replica.storage.producer_snapshots import SNAPSHOT, replay
from replica.storage.producer_state import ProducerStateManager
from replica.storage.unified_log import UnifiedLog
from zab.storage.disk import read_all


def restore_transactions(
    log: UnifiedLog, names: Collection[str], point: int, notes: list[str], *, markers: bool
) -> None:
    """Restore the producers and transactions of a log.

    names     the file names in the folder
    point     the recovery point
    markers   True if there may be a transaction marker after the recovery point
    """
    log.producers = log.snapshots.state_at(log.end_offset)
    segments = list(log.segments)
    point = max(point, segments[0].base)
    for segment in _without_index(log, segments, names, point):
        log.snapshots.rebuild_aborted(segment)
        notes.append(f"{file_name(segment.base, '')} lacked its transaction index, which was rebuilt")
        log.flusher.names_changed = True
    unflushed = [each for each in segments if each.end > point or each is segments[-1]]
    if markers or any(each.has_aborted for each in unflushed):
        for each in unflushed:
            log.load_aborted(each)  # rebuilds a malformed index
            each.truncate_aborted(point)
            _truncate_torn(each)
        for aborted in replay(log.snapshots.state_at(point), segments, point, log.end_offset):
            log.add_aborted(aborted)


def _truncate_torn(segment: LogSegment) -> None:
    """Remove entries from the end until one has its marker in the log.

    An entry may span two sectors. If a power loss kept only one of them, the entry has a wrong offset or producer id,
    and no marker is found for it. The caller has removed the entries whose markers are after the recovery point. So an
    entry that has a marker was durable, and so were the entries before it.
    """
    entries = segment.aborted
    for entry in reversed(entries):
        found = segment.locate(entry.last_offset) if segment.size else None
        if found is not None and found[1].control and found[1].producer_id == entry.producer_id:
            break
        segment.truncate_aborted(entry.last_offset)


def _without_index(log: UnifiedLog, segments: list[LogSegment], names: Collection[str], point: int) -> list[LogSegment]:
    """Return the segments that are considered to have lost their transaction index.

    Once a transaction has completed in a log, each flush and each roll create the active segment's transaction index
    if it is missing. So a segment that was flushed or closed after that has one, perhaps without entries.
    """
    if not (log.producers.any_completed or any(each.has_aborted for each in segments)):
        return []
    last = segments[-1]
    found = [
        one
        for one, following in pairwise(segments)
        if one.base < point and not one.has_aborted and _had_completed(log, names, following.base)
    ]
    if last.size and last.base < point and not last.has_aborted and log.producers.any_completed:
        found.append(last)
    return found


def _had_completed(log: UnifiedLog, names: Collection[str], offset: int) -> bool:
    """Return whether a transaction had completed before this offset, according to the snapshot there; False without
    a valid one."""
    if file_name(offset, SNAPSHOT) not in names:
        return False
    try:
        path = log.snapshots.path(offset)
        return ProducerStateManager.decode(read_all(log.segments.files, path)).any_completed
    except (ValueError, MissingFile):
        return False
