"""Recovery of a log at the start of a broker (Kafka: LogLoader).

Everything before the recovery point was durable. If some of it is missing, the log is damaged and is not served. Beyond
the recovery point, records need not be durable: a power loss may keep or lose any sector of a write. Flushed records
may be there, too, because the recovery point on disk can be a minute old. So each batch there is checked, and the log
is cut, with a note, at the first one that is incomplete, invalid or out of order. The remaining batches are written
again, because a failed sync may have left them only in the page cache.

The files beside the batches are hints. Indexes, leader epochs, producer state and transaction indexes are rebuilt from
the batches if they are missing or invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from replica.core.errors import KafkaError
from replica.core.partitions.log_config import RELATIVE_MAX, LogConfig
from replica.storage.checkpoint_files import EPOCHS, decode_epochs
from replica.storage.files import DamagedLog, Handles, MissingFile
from replica.storage.leader_epochs import LeaderEpochFileCache
from replica.storage.log_segment import ALL_SUFFIXES, INDEX, LOG, TIMES, LogSegment, file_name
from replica.storage.log_segments import DELETED, LogSegments, no_jitter
from replica.storage.producer_snapshots import snapshots_in
from replica.storage.segment_indexes import OffsetIndex, TimeIndex
from replica.storage.transaction_index import ABORTED
from replica.storage.transaction_recovery import restore_transactions
from replica.storage.unified_log import NO_CHECKPOINTS, OffsetCheckpoints, UnifiedLog
from replica.wire.batch import HEADER_BYTES, PREFIX, Header, check
from zab.storage.disk import DiskFile, FileStat, FolderDisk, read_all

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_CHUNK_BYTES: Final = 4 << 20


@define
class _Scanned:
    """The result of the scan, which covers the batches after the recovery point and perhaps a few before it.

    epochs    leader epoch and base offset of each batch
    markers   True if there is a transaction marker
    """

    epochs: list[tuple[int, int]] = field(factory=list)
    markers: bool = False


@frozen
class KnownOffsets:
    """The offsets of one log in the directory's checkpoint files."""

    recovery_point: int = 0
    start_offset: int = 0


def open_log(
    name: str,
    config: LogConfig,
    handles: Handles,
    folder: str,
    known: KnownOffsets,
    checkpoints: OffsetCheckpoints = NO_CHECKPOINTS,
    notes: list[str] | None = None,
    draw: Callable[[], float] = no_jitter,
) -> UnifiedLog:
    """Open a log, or create it in an empty folder. Append notes for the operator to `notes`. `draw` returns a random
    number from 0 to 1 for the jitter of a segment.

    Raises `DamagedLog` if durable records are found to be missing or damaged.
    """
    notes = [] if notes is None else notes
    files = handles.files
    found = finish_interrupted(handles, folder, notes)
    _delete_lone_indexes(handles, folder, found, known, notes)
    segments = _segments(handles, folder, found)
    if not segments:
        if known.recovery_point > known.start_offset:
            raise DamagedLog(
                f"{files.where}/{folder} has no segment, but its log was durable up to offset {known.recovery_point}. "
                "If another replica is in sync, stop the broker, remove this partition's directory and restart: the "
                "broker copies the log"
            )
        segments = [LogSegment.create(handles, folder, known.start_offset)]
    kept = _epochs(found, handles, folder, notes)
    scanned = _recover(segments, known, config, notes)
    if known.start_offset > segments[-1].end:
        notes.append(
            f"the log ends at offset {segments[-1].end}, before its log start offset {known.start_offset}: all records "
            "are deleted"
        )
    start = max(known.start_offset, segments[0].base)
    epochs = LeaderEpochFileCache(files, folder, kept)
    _restore_epochs(epochs, kept, scanned.epochs, segments, start)
    log = UnifiedLog(
        name, config, LogSegments(handles, folder, segments, draw), epochs, start, known.recovery_point, checkpoints
    )
    if known.start_offset > log.end_offset:
        log.truncate_fully_and_start_at(known.start_offset)
    if any(at > log.end_offset for at in snapshots_in(found)):
        log.snapshots.delete(lambda at: at > log.end_offset)
    restore_transactions(log, found, log.recovery_point, notes, markers=scanned.markers)
    return log


def finish_interrupted(handles: Handles, folder: str, notes: list[str]) -> dict[str, FileStat]:
    """Finish each cleaning that was interrupted during its replacement. Remove the remains of other cleanings, of
    deletions and of temporary files. Return the files of the folder. Raises `DamagedLog` if a `.swap` file is damaged.
    """
    files = handles.files
    swaps = []
    found = _files(files, folder)
    for name in list(found):
        if name.endswith((DELETED, CLEANED, ".tmp")) or _is_half_a_swap(name, found):
            files.discard(f"{folder}/{name}")
            del found[name]
        elif name.endswith(LOG + SWAP):
            swaps.append(name)
    for name in swaps:
        base = int(name.removesuffix(LOG + SWAP))
        end = _end_of(handles, f"{folder}/{name}", base)
        if end == base:
            files.discard(f"{folder}/{name}")  # a cleaning leaves at least one batch
            notes.append(f"{name} is empty and was deleted")
            continue
        finish_swap(handles, folder, base, end)
        notes.append(f"finished the interrupted cleaning of {name.removesuffix(SWAP)}")
    return _files(files, folder) if swaps else found


def _files(files: FolderDisk, folder: str) -> dict[str, FileStat]:
    """Return the files of the folder without foreign ones whose names end as those of segments, such as backup.log."""
    return {name: stat for name, stat in files.stats(folder).items() if not _is_foreign(name)}


def _is_foreign(name: str) -> bool:
    stem, dot, rest = name.partition(".")
    return not stem.isdecimal() and f"{dot}{rest}".removesuffix(SWAP) in ALL_SUFFIXES


def _is_half_a_swap(name: str, found: dict[str, FileStat]) -> bool:
    """Return whether this is the new transaction index of a cleaning that stopped before its segment was renamed to
    `.swap`."""
    return name.endswith(ABORTED + SWAP) and name.removesuffix(ABORTED + SWAP) + LOG + SWAP not in found


def _delete_lone_indexes(
    handles: Handles, folder: str, found: dict[str, FileStat], known: KnownOffsets, notes: list[str]
) -> None:
    """Delete indexes without a log file. An interrupted deletion may leave them at either end of the log.

    No deletion leaves them between two segments. Before the recovery point such an index proves that a segment was lost
    there, so raise `DamagedLog`.
    """
    files = handles.files
    bases = [int(name.removesuffix(LOG)) for name in found if name.endswith(LOG)]
    for name in list(found):
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}" in (INDEX, TIMES, ABORTED) and stem + LOG not in found:
            if bases and min(bases) < int(stem) < min(max(bases), known.recovery_point):
                raise DamagedLog(
                    f"{files.where}/{folder}/{stem}{LOG} is missing, although it was durable. If another replica "
                    "is in sync, stop the broker, remove this partition's directory and restart: the broker copies "
                    "the records"
                )
            notes.append(f"{name} belongs to no segment and was deleted")
            files.discard(f"{folder}/{name}")
            del found[name]


def finish_swap(handles: Handles, folder: str, base: int, end: int) -> None:
    """Replace the segments with base offsets from `base` up to `end` (exclusive) by a cleaned one, which is a durable
    `.swap` file.

    The originals after `base` are durably deleted before the rename; otherwise one could reappear after the segment
    that contains its records. The rename replaces the original at `base`.
    """
    files = handles.files
    swapped = f"{folder}/{file_name(base, LOG)}{SWAP}"
    for name in _files(files, folder):
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}" in ALL_SUFFIXES and base < int(stem) < end:
            handles.forget(f"{folder}/{name}")
            files.discard(f"{folder}/{name}")
    for suffix in (INDEX, TIMES):
        handles.forget(f"{folder}/{file_name(base, suffix)}")
        files.discard(f"{folder}/{file_name(base, suffix)}")
    aborted = f"{folder}/{file_name(base, ABORTED)}"
    if aborted.rpartition("/")[2] + SWAP in files.stats(folder):
        handles.forget(aborted)
        files.rename(aborted + SWAP, aborted)
    handles.forget(f"{folder}/{file_name(base, LOG)}")
    files.sync_dir(folder)
    files.rename(swapped, f"{folder}/{file_name(base, LOG)}")
    files.sync_dir(folder)


def _end_of(handles: Handles, path: str, base: int) -> int:
    """Return the next offset after a durable file of batches; `base` if it is empty. Raises `DamagedLog` if a batch is
    invalid."""
    file = handles.files.open(path)
    try:
        end, position, size = base, 0, file.size()
        while position < size:
            header = check(*_whole(file, position, size))
            end, position = header.next_offset, position + header.size
        return end
    except KafkaError as error:
        raise DamagedLog(f"{handles.files.where}/{path} was durable, but is damaged: {error.text}") from error
    finally:
        file.close()


def _whole(file: DiskFile, position: int, size: int) -> tuple[bytes, int]:
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return head, 0
    length = PREFIX.unpack_from(head)[1] + PREFIX.size
    return (file.read(position, length) if 0 < length <= size - position else head), 0


def _segments(handles: Handles, folder: str, found: dict[str, FileStat]) -> list[LogSegment]:
    """Return the segments, each of which ends where the next one starts. `_recover` finds the end of the last one."""
    bases = sorted((int(name.removesuffix(LOG)), stat) for name, stat in found.items() if name.endswith(LOG))
    segments = []
    for index, (base, stat) in enumerate(bases):
        end = bases[index + 1][0] if index + 1 < len(bases) else base
        segment = LogSegment(handles, folder, base, stat.size, end)
        segment.has_aborted = file_name(base, ABORTED) in found
        segments.append(segment)
    return segments


def _recover(segments: list[LogSegment], known: KnownOffsets, config: LogConfig, notes: list[str]) -> _Scanned:
    """Read the batches after the recovery point, and cut the log where it breaks.

    It breaks at the first batch that is incomplete, invalid or out of order, and where a segment is missing. Raises
    `DamagedLog` if it breaks or ends before the recovery point.
    """
    point = known.recovery_point
    first = max((index for index, each in enumerate(segments) if each.base <= point), default=0)
    scanned = _Scanned()
    index = first
    while index < len(segments):
        segment = segments[index]
        broken = _scan(segment, point if index == first else segment.base, config, scanned)
        if broken is None and index + 1 < len(segments) and segments[index + 1].base != segment.end:
            broken = f"the next segment begins only at offset {segments[index + 1].base}"
        if broken is not None:
            if segment.end < point:
                raise segment.damaged(segment.size, f"{broken}; the log was durable up to offset {point}")
            later = segments[index + 1 :]
            lost = sum(each.size for each in later)
            notes.append(
                f"{file_name(segment.base, LOG)} is cut at byte {segment.size}, offset {segment.end}: {broken}"
                + (f"; later segments deleted: {len(later)} ({lost} bytes)" if later else "")
            )
            _truncate_after(segment, later)
            del segments[index + 1 :]
            break
        index += 1
    end = segments[-1].end
    if end < point:
        raise segments[-1].damaged(
            segments[-1].size, f"the log ends at offset {end}, but was durable up to offset {point}"
        )
    return scanned


def _truncate_after(segment: LogSegment, later: list[LogSegment]) -> None:
    """Make this segment the last one, durably: as soon as another segment follows, no start checks the end of this
    one."""
    for each in reversed(later):
        for suffix in each.suffixes:
            segment.handles.files.discard(each.path(suffix))
    file = segment.handles.get(segment.log_path)
    file.truncate(segment.size)
    file.sync()
    segment.handles.files.sync_dir(segment.folder)


def _scan(segment: LogSegment, since: int, config: LogConfig, scanned: _Scanned) -> str | None:
    """Check the batches from the last indexed one before `since` on, and rebuild their index entries. Write the batches
    from `since` on again. If the segment breaks off, end it there, and return the reason; else return None."""
    position, end = _known_start(segment, since)
    segment.end = end
    unsettled: int | None = None
    file = segment.handles.files.open(segment.log_path)
    chunk, begins = b"", 0
    try:
        while position < segment.size:
            at = position - begins
            header, broken = _next(chunk, at)
            if header is None:
                chunk, begins = file.read(position, _CHUNK_BYTES), position
                header, broken = _next(chunk, 0)
                if header is None and len(chunk) >= PREFIX.size:  # the batch may be longer than the chunk
                    length = PREFIX.unpack_from(chunk)[1] + PREFIX.size
                    if len(chunk) < length <= segment.size - position:
                        chunk = file.read(position, length)
                        header, broken = _next(chunk, 0)
            epoch = scanned.epochs[-1][0] if scanned.epochs else 0
            if header is not None and not _follows(header, segment, epoch):
                broken = (
                    f"offset {header.base_offset}, epoch {header.leader_epoch} cannot follow offset {segment.end - 1}, "
                    f"epoch {epoch}"
                )
                header = None
            if header is None:
                segment.size = position
                return broken
            if unsettled is None and header.next_offset > since:
                unsettled = position
            scanned.epochs.append((header.leader_epoch, header.base_offset))
            scanned.markers |= header.control
            segment.note(position, header, config.index_interval_bytes)
            position += header.size
    finally:
        file.close()
        segment.note_time()
        segment.write_held_indexes()
        if unsettled is not None:
            _write_again(segment, unsettled)
    return None


def _write_again(segment: LogSegment, position: int) -> None:
    """Write the batches from `position` on again, so that the next sync makes them durable.

    If an earlier sync failed, the page cache may hold these bytes as written, and the next sync would succeed without
    writing them.
    """
    file = segment.handles.get(segment.log_path)
    for at in range(position, segment.size, _CHUNK_BYTES):
        file.write(at, file.read(at, min(_CHUNK_BYTES, segment.size - at)))


def _follows(header: Header, segment: LogSegment, epoch: int) -> bool:
    """Return whether a batch may be next in the segment. Its checksum covers neither offset nor leader epoch.

    A batch with an older epoch was truncated before, and came back because a power loss undid the truncation.
    """
    return (
        segment.end <= header.base_offset <= segment.base + RELATIVE_MAX - header.last_delta
        and header.leader_epoch >= epoch
    )


def _next(chunk: bytes, at: int) -> tuple[Header | None, str]:
    try:
        return check(chunk, at), ""
    except KafkaError as error:
        return None, error.text


def _known_start(segment: LogSegment, since: int) -> tuple[int, int]:
    """Return position and base offset of the last indexed batch before `since`, or of the segment's start if the
    indexes have no valid entry. Cut the indexes there, in memory."""
    try:
        index = OffsetIndex(read_all(segment.handles.files, segment.path(INDEX)))
        times = TimeIndex(read_all(segment.handles.files, segment.path(TIMES)))
    except (ValueError, MissingFile):
        index, times = OffsetIndex(), TimeIndex()
    position = index.floor(since - segment.base - 1) if since > segment.base else 0
    base = _base_offset_at(segment, position) if position else -1
    if not segment.base <= base <= since:
        position, base = 0, segment.base
    segment.hold_indexes(position, base, index, times)
    return position, base


def _base_offset_at(segment: LogSegment, position: int) -> int:
    """Return the base offset of the batch that starts at this position; -1 if the index is wrong and no batch starts
    there."""
    try:
        found = next(segment.headers(position, chunk_bytes=HEADER_BYTES), None)
    except DamagedLog:
        return -1
    return -1 if found is None else found[1].base_offset


def _epochs(
    found: dict[str, FileStat], handles: Handles, folder: str, notes: list[str]
) -> list[tuple[int, int]] | None:
    """Return the entries of the leader epoch file; None if it is missing or damaged."""
    if EPOCHS not in found:
        return None
    try:
        return decode_epochs(read_all(handles.files, f"{folder}/{EPOCHS}"))
    except DamagedLog as error:
        notes.append(f"{error.text}: the epochs are rebuilt from the batches")
        return None


def _restore_epochs(
    epochs: LeaderEpochFileCache,
    kept: list[tuple[int, int]] | None,
    scanned: list[tuple[int, int]],
    segments: list[LogSegment],
    start: int,
) -> None:
    """Correct the epochs of the file with those of the batches, which are authoritative.

    If the file is newer than the checkpoint of the log start offset, it lacks the epochs before its first entry. In
    that case, and without a valid file or any entry in it, all batches are read. Epoch 0 is an ordinary epoch
    (KAFKA-10432).
    """
    end = segments[-1].end
    if any(each.size for each in segments) and (not kept or kept[0][1] > start):
        scanned = [(header.leader_epoch, header.base_offset) for each in segments for _, header in each.headers()]
    for epoch, offset in scanned:
        if epoch >= 0 and epochs.epoch_for_offset(offset) != epoch:
            epochs.assign(epoch, offset)
    epochs.truncate_from_end(end + 1)
    epochs.truncate_from_start(start)
    if epochs.entries or kept is not None:
        epochs.write_if_changed()
