"""A log as it is found again: taken as it is up to the recovery point, and checked batch by batch behind it.

Before the recovery point everything was durable once. What is missing there is damage, and the log is not offered.
Behind it nothing was promised: the first batch that is not whole and sound ends the log, and the rest is cut off.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from replica.core.errors import KafkaError
from replica.storage.aborted import ABORTED
from replica.storage.checkpoints import EPOCHS, decode_epochs
from replica.storage.config import RELATIVE_MAX, LogConfig
from replica.storage.epochs import EpochCache
from replica.storage.file_log import DELETED, FileLog
from replica.storage.files import DamagedLog, Handles, MissingFile
from replica.storage.growing_log import NO_MARKS, Marks, snapshots_in
from replica.storage.index import OffsetIndex, TimeIndex
from replica.storage.segment import ALL_SUFFIXES, INDEX, LOG, TIMES, Segment, file_name
from replica.storage.transactions import restore
from replica.wire.batch import HEADER_BYTES, PREFIX, Header, check
from zab.storage.disk import DiskFile, Stat, read_all

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_CHUNK_BYTES: Final = 4 << 20


@define
class _Seen:
    """Behind the recovery point: leader epochs and where they were met, and whether an end of a transaction was."""

    epochs: list[tuple[int, int]] = field(factory=list)
    ends: bool = False


@frozen
class Known:
    """What the checkpoints of the directory say about this log."""

    recovery_point: int = 0
    start_offset: int = 0


def open_log(
    name: str,
    config: LogConfig,
    handles: Handles,
    folder: str,
    known: Known,
    marks: Marks = NO_MARKS,
) -> FileLog:
    """`DamagedLog` where something is missing that was durable."""
    notes: list[str] = []
    files = handles.files
    found = clear_up(handles, folder, notes)
    _forget_lonely(handles, folder, found, known, notes)
    segments = _segments(handles, folder, found)
    if not segments:
        if known.recovery_point > known.start_offset:
            raise DamagedLog(
                f"{files.where}/{folder} is empty, and its log was durable up to offset {known.recovery_point}: if "
                "that is intended, remove the directory while the broker is down, and it is copied from the others"
            )
        segments = [Segment.create(handles, folder, known.start_offset)]
    epochs = _epochs(found, handles, folder, notes)
    seen = _recover(segments, known, config, notes)
    if known.start_offset > segments[-1].end:
        notes.append(f"it should begin at offset {known.start_offset}, and ends at {segments[-1].end}: all of it goes")
    log = FileLog(name, config, handles, folder, segments, max(known.start_offset, segments[0].base), marks)
    log.notes = notes
    log.recovery_point = min(known.recovery_point, log.end_offset)
    _restore_epochs(log, epochs, seen.epochs)
    if known.start_offset > log.end_offset:
        log.truncate_fully_and_start_at(known.start_offset)
    if any(at > log.end_offset for at in snapshots_in(found)):
        log._remove_snapshots(lambda at: at > log.end_offset)
    restore(log, found, log.recovery_point, ends=seen.ends)
    return log


def clear_up(handles: Handles, folder: str, notes: list[str]) -> dict[str, Stat]:
    """What a delete or a cleaning left: a cleaning that had come to its swap is finished, others are undone."""
    files = handles.files
    swaps = []
    found = files.stats(folder)
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
            files.discard(f"{folder}/{name}")  # a cleaning leaves one batch at least
            notes.append(f"{name} is empty, and is deleted")
            continue
        finish_swap(handles, folder, base, end)
        notes.append(f"the cleaning of {name.removesuffix(SWAP)} is finished")
    return files.stats(folder) if swaps else found


def _is_half_a_swap(name: str, found: dict[str, Stat]) -> bool:
    """A cleaning ended before it had come to its swap of the segment itself."""
    return name.endswith(ABORTED + SWAP) and name.removesuffix(ABORTED + SWAP) + LOG + SWAP not in found


def _forget_lonely(handles: Handles, folder: str, found: dict[str, Stat], known: Known, notes: list[str]) -> None:
    """Indexes without their segment. At either end of the log a deletion may have been broken off; between two segments
    there is none that leaves one."""
    files = handles.files
    bases = [int(name.removesuffix(LOG)) for name in found if name.endswith(LOG)]
    for name in list(found):
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}" in (INDEX, TIMES, ABORTED) and stem + LOG not in found:
            if bases and min(bases) < int(stem) < min(max(bases), known.recovery_point):
                raise DamagedLog(
                    f"{files.where}/{folder}/{stem}{LOG} is not there, and was durable: remove the directory while the "
                    "broker is down, and it is copied from the others"
                )
            notes.append(f"{name} has no segment beside it, and is deleted")
            files.discard(f"{folder}/{name}")
            del found[name]


def finish_swap(handles: Handles, folder: str, base: int, end: int) -> None:
    """The cleaned segment takes the place of all that it was made of: those that begin where it reaches."""
    files = handles.files
    swapped = f"{folder}/{file_name(base, LOG)}{SWAP}"
    for name in files.stats(folder):
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
    files.sync_dir(folder)  # none of them may come back behind what holds its records, too
    files.rename(swapped, f"{folder}/{file_name(base, LOG)}")
    files.sync_dir(folder)


def _end_of(handles: Handles, path: str, base: int) -> int:
    file = handles.files.open(path)
    try:
        end, position, size = base, 0, file.size()
        while position < size:
            header = check(*_whole(file, position, size))
            end, position = header.next_offset, position + header.size
        return end
    except KafkaError as error:
        raise DamagedLog(f"{handles.files.where}/{path} was durable, and is damaged: {error.text}") from error
    finally:
        file.close()


def _whole(file: DiskFile, position: int, size: int) -> tuple[bytes, int]:
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return head, 0
    length = PREFIX.unpack_from(head)[1] + PREFIX.size
    return (file.read(position, length) if 0 < length <= size - position else head), 0


def _segments(handles: Handles, folder: str, found: dict[str, Stat]) -> list[Segment]:
    """Each ends where the next one begins; where the last one ends is found out by who asks."""
    bases = sorted((int(name.removesuffix(LOG)), stat) for name, stat in found.items() if name.endswith(LOG))
    segments = []
    for index, (base, stat) in enumerate(bases):
        end = bases[index + 1][0] if index + 1 < len(bases) else base
        segment = Segment(handles, folder, base, stat.size, end, stat.modified_ms)
        segment.has_aborted = file_name(base, ABORTED) in found
        segments.append(segment)
    return segments


def _recover(segments: list[Segment], known: Known, config: LogConfig, notes: list[str]) -> _Seen:
    """Reads what is behind the recovery point, and cuts where it breaks off. Returns what it saw."""
    point = known.recovery_point
    first = max((index for index, each in enumerate(segments) if each.base <= point), default=0)
    seen = _Seen()
    index = first
    while index < len(segments):
        segment = segments[index]
        broken = _scan(segment, point if index == first else segment.base, config, seen)
        if broken is None and index + 1 < len(segments) and segments[index + 1].base != segment.end:
            broken = f"the next segment begins at offset {segments[index + 1].base}"
        if broken is not None:
            if segment.end < point:
                raise segment.damaged(segment.size, f"{broken}; it was durable up to offset {point}")
            later = segments[index + 1 :]
            lost = sum(each.size for each in later)
            notes.append(
                f"{file_name(segment.base, LOG)} ends at byte {segment.size}, offset {segment.end}: {broken}"
                + (f"; {len(later)} later segments, {lost} bytes, are deleted" if later else "")
            )
            _cut_here(segment, later)
            del segments[index + 1 :]
            break
        index += 1
    end = segments[-1].end
    if end < point:
        raise segments[-1].damaged(segments[-1].size, f"it ends at offset {end}, and was durable up to {point}")
    return seen


def _cut_here(segment: Segment, later: list[Segment]) -> None:
    for each in reversed(later):
        for suffix in each.suffixes:
            segment.handles.files.discard(each.path(suffix))
    file = segment.handles.get(segment.log_path)
    file.truncate(segment.size)
    file.sync()  # what comes next may be in another segment, and this one is not looked through again
    segment.handles.files.sync_dir(segment.folder)


def _scan(segment: Segment, since: int, config: LogConfig, seen: _Seen) -> str | None:
    """Checks from the last known batch before `since` on, with new index entries; why it breaks."""
    position, end = _known_start(segment, since)
    segment.end = end
    file = segment.handles.files.open(segment.log_path)
    chunk, begins = b"", 0
    try:
        while position < segment.size:
            at = position - begins
            header, broken = _next(chunk, at)
            if header is None:
                chunk, begins = file.read(position, _CHUNK_BYTES), position
                header, broken = _next(chunk, 0)
                if header is None and broken.startswith("a batch of"):
                    length = PREFIX.unpack_from(chunk)[1] + PREFIX.size
                    if len(chunk) < length <= segment.size - position:
                        chunk = file.read(position, length)
                        header, broken = _next(chunk, 0)
            epoch = seen.epochs[-1][0] if seen.epochs else 0
            if header is not None and not _follows(header, segment, epoch):
                broken = (
                    f"offset {header.base_offset}, epoch {header.leader_epoch} cannot follow offset {segment.end - 1}, "
                    f"epoch {epoch}"
                )
                header = None
            if header is None:
                segment.size = position
                return broken
            seen.epochs.append((header.leader_epoch, header.base_offset))
            seen.ends |= header.control
            segment.note(position, header, config.index_interval_bytes)
            position += header.size
    finally:
        file.close()
        segment.note_time()
        segment.settle_indexes()
    return None


def _follows(header: Header, segment: Segment, epoch: int) -> bool:
    """Neither the offset nor the epoch is under the checksum. Of an older epoch is what was cut off once, and is there
    again because the loss of power came before the cut was durable."""
    return (
        segment.end <= header.base_offset <= segment.base + RELATIVE_MAX - header.last_delta
        and header.leader_epoch >= epoch
    )


def _next(chunk: bytes, at: int) -> tuple[Header | None, str]:
    try:
        return check(chunk, at), ""
    except KafkaError as error:
        return None, error.text


def _known_start(segment: Segment, since: int) -> tuple[int, int]:
    """A position where a batch begins that is durable, and the offset there; the indexes end there."""
    try:
        index = OffsetIndex(read_all(segment.handles.files, segment.path(INDEX)))
        times = TimeIndex(read_all(segment.handles.files, segment.path(TIMES)))
    except (ValueError, MissingFile):
        index, times = OffsetIndex(), TimeIndex()
    position = index.floor(since - segment.base - 1) if since > segment.base else 0
    base = _begins_with(segment, position) if position else -1
    if not segment.base <= base <= since:
        position, base = 0, segment.base
    segment.hold_indexes(position, base, index, times)
    return position, base


def _begins_with(segment: Segment, position: int) -> int:
    """The first offset of the batch that begins there; -1: none does, whatever an index says."""
    try:
        found = next(segment.headers(position, chunk_bytes=HEADER_BYTES), None)
    except DamagedLog:
        return -1
    return -1 if found is None else found[1].base_offset


def _epochs(found: dict[str, Stat], handles: Handles, folder: str, notes: list[str]) -> list[tuple[int, int]] | None:
    """None: they must be read from the batches."""
    if EPOCHS not in found:
        return None
    try:
        return decode_epochs(read_all(handles.files, f"{folder}/{EPOCHS}"))
    except DamagedLog as error:
        notes.append(f"{error.text}: it is made again from the batches")
        return None


def _restore_epochs(log: FileLog, kept: list[tuple[int, int]] | None, seen: list[tuple[int, int]]) -> None:
    """Those of the batches win over the file: they are what the log holds. Epoch 0 is one like any other.

    The file may be newer than what is remembered of where the log begins: then it lacks those before."""
    log.epochs = EpochCache(kept or ())
    if kept is not None:
        log.epochs_are_kept()
    if log.size and (not kept or kept[0][1] > log.start_offset):
        seen = [(header.leader_epoch, header.base_offset) for each in log.segments for _, header in each.headers()]
    for epoch, start in seen:
        if epoch >= 0 and log.epochs.epoch_for_offset(start) != epoch:
            log.epochs.assign(epoch, start)
    log.epochs.truncate_from_end(log.end_offset + 1)
    log.epochs.truncate_from_start(log.start_offset)
    if log.epochs.entries or kept is not None:
        log._keep_epochs()
