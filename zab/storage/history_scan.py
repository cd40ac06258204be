"""Read the snapshots and the log of a directory, and judge whether they form a complete history.

A scan only reads. Recovery changes files after the scan.
"""

from __future__ import annotations

from attrs import define, field

from zab.core.batch import Batch
from zab.core.errors import DamagedError
from zab.core.zxid import NOTHING, Zxid, epoch_of, show
from zab.storage import snapshot_files
from zab.storage.disk import Disk, read_all
from zab.storage.epochs import EpochsRecord
from zab.storage.segment import FILE_HEAD, PREFIX, Segment, SegmentScan, decode_segment, guess_segment, name_of, scan
from zab.storage.snapshot_files import SNAPSHOT
from zab.storage.torn_tail import contradiction


@define
class HistoryScan:
    """The result of a scan. If `damage` is empty, these pieces are a complete history that ends at `last`.

    notes       lines to report: those of the caller, then the findings of the scan
    snapshot    the zxid of the snapshot that the history starts from; NOTHING without one
    newest      the zxid of the newest sound snapshot; None without one
    digest      the digest of the history up to `snapshot`; None if it is not known
    start       the zxid after which the log holds everything
    batches     all batches that end after `snapshot`
    epoch_ends  the last zxid at or before `snapshot` of every epoch in the log, ascending
    segments    the files that hold the log, in order
    unsound     newer snapshots that cannot be used, and why
    tail        the bytes and the scan of the newest file of the history; None without one
    torn        the log ends in a record that was being written when the server died
    void        log files after the end of the history; recovery deletes them
    rotten      notes about damaged files that are not needed
    forgotten   the epochs record is outdated, so promises may be lost
    salvage     continue past a file's damaged header: for a rescue, never for a server that votes
    """

    disk: Disk
    record: EpochsRecord
    notes: list[str]
    damage: list[str] = field(factory=list)
    snapshot: Zxid = NOTHING
    newest: Zxid | None = None
    digest: int | None = 0
    unsound: dict[Zxid, str] = field(factory=dict)
    rotten: list[str] = field(factory=list)
    start: Zxid = NOTHING
    last: Zxid = NOTHING
    batches: list[Batch] = field(factory=list)
    epoch_ends: list[Zxid] = field(factory=list)
    segments: list[Segment] = field(factory=list)
    void: list[str] = field(factory=list)
    tail: tuple[bytes, SegmentScan] | None = None
    torn: bool = False
    forgotten: bool = False
    salvage: bool = False

    def read(self) -> None:
        self._read_snapshots()
        self._read_log()
        if not self.damage:
            self._check()

    def _read_snapshots(self) -> None:
        """Find the newest sound snapshot, and note newer damaged ones."""
        for zxid in snapshot_files.listed(self.disk.list(), SNAPSHOT):
            try:
                self.digest = snapshot_files.verify(self.disk, snapshot_files.name_of(zxid))
            except DamagedError as error:
                self._rotten(str(error))
                self.unsound[zxid] = str(error)
                continue
            self.snapshot, self.newest = zxid, zxid
            break
        self.start = self.last = self.snapshot

    def _read_log(self) -> None:
        newest = self.record.segment
        firsts = sorted(snapshot_files.listed(self.disk.list(), PREFIX))
        known = [first for first in firsts if first <= newest]
        if newest and newest not in known:
            self.damage.append(f"{name_of(newest)}: missing, but it was the newest log file")
        gap: str | None = None
        for first in known:
            name = name_of(first)
            try:
                data = read_all(self.disk, name)
                segment = self._segment(first, data)
            except DamagedError as error:
                gap = gap or str(error)
                continue
            if not self._join(segment, gap):
                return
            found = scan(data, segment, after=self.snapshot)
            gap = self._take(segment, data, found, is_last=first == newest)
        if gap is not None:
            self.damage.append(gap)
        for first in firsts[len(known) :]:
            self._try_unannounced(first)

    def _segment(self, first: Zxid, data: bytes) -> Segment:
        try:
            return decode_segment(name_of(first), data)
        except DamagedError as error:
            segment = guess_segment(first, data) if self.salvage else None
            if segment is None:
                raise
            self.damage.append(str(error))
            return segment

    def _try_unannounced(self, first: Zxid) -> None:
        """Take a log file newer than the newest one in the epochs record, if it continues the history without damage.

        An acknowledgement depends on such a file only if the disk has confirmed a sync falsely. Otherwise the file was
        never used, or was about to be deleted. Every other newer file is void.
        """
        name = name_of(first)
        if not self.void and not self.torn:
            try:
                data = read_all(self.disk, name)
                segment = decode_segment(name, data)
            except DamagedError as error:
                why: str | None = str(error)
            else:
                found = scan(data, segment, after=self.snapshot)
                if segment.previous == self.last and found.end > FILE_HEAD and found.trouble is None:
                    self._take(segment, data, found, is_last=True)
                    return
                why = found.trouble and f"{name}: offset {found.end}: {found.trouble}"
            if why is not None:
                self.notes.append(f"{why}; no acknowledgement depends on this file, and recovery deletes it")
        self.void.append(name)

    def _join(self, segment: Segment, gap: str | None) -> bool:
        """Return whether this file continues the history so far, or the snapshot covers the gap before it.

        If the snapshot covers the gap, drop the earlier files; if nothing covers it, note the damage.
        """
        if self.segments and gap is None and segment.previous == self.last:
            return True
        if segment.previous > self.snapshot or self.batches:
            missing = (
                f"{segment.name}: offset 0: begins after {show(segment.previous)}, but the history before it ends at"
            )
            self.damage.append(f"{gap + '; ' if gap else ''}{missing} {show(self.last)}")
            return False
        if self.segments or gap is not None:
            why = gap or (
                f"{segment.name}: begins after {show(segment.previous)}, but the log before it ends at "
                f"{show(self.last)}"
            )
            (self.notes.append if gap is None else self._rotten)(
                f"{why}; nothing is lost: the snapshot at {show(self.snapshot)} contains everything before "
                f"{segment.name}, and the earlier log files are not needed"
            )
        self.start = self.last = segment.previous
        self.segments.clear()
        self.epoch_ends.clear()
        return True

    def _take(self, segment: Segment, data: bytes, found: SegmentScan, is_last: bool) -> str | None:
        """Add a scanned file to the history. Return the gap that it leaves, or None.

        A record with a damaged body is only noted if the snapshot covers it. Any other bad record is a gap, unless it
        is a torn record in the newest file: neither misplaced nor contradicted by `torn_tail.contradiction`.
        """
        self.segments.append(segment)
        self.batches += found.batches
        if self.epoch_ends and found.epoch_ends and epoch_of(self.epoch_ends[-1]) == epoch_of(found.epoch_ends[0]):
            self.epoch_ends.pop()
        self.epoch_ends += found.epoch_ends
        self.last = found.last
        for offset, reaches in found.skipped:
            self.start = reaches
            self._rotten(
                f"{segment.name}: offset {offset}: the checksum of a record is wrong; the record is not needed, "
                f"because the snapshot at {show(self.snapshot)} contains everything up to its end, {show(reaches)}"
            )
        if is_last:
            self.tail = data, found
        if found.trouble is None:
            return None
        where = f"{segment.name}: offset {found.end}: {found.trouble}"
        if not is_last:
            return where
        why_not = (
            "a crash cannot put a record there"
            if found.misplaced
            else contradiction(data, segment, found.end, found.last)
        )
        if why_not is not None:
            return f"{where}; {why_not}"
        self.torn = True
        self.notes.append(
            f"{where}; torn by a crash before it was durable, so the log is cut off after {show(found.last)}"
        )
        return None

    def _rotten(self, what: str) -> None:
        """Note damage to files that are not needed. The note warns an operator that the disk is failing."""
        self.notes.append(what)
        self.rotten.append(what)

    def _check(self) -> None:
        """Check that the pieces, each sound by itself, form a complete history."""
        record = self.record
        if self.last < self.snapshot:
            self.damage.append(f"the log ends at {show(self.last)}, before the snapshot at {show(self.snapshot)}")
        for zxid, why in self.unsound.items():
            if zxid > self.last:
                self.damage.append(f"{why}; and the log ends before it, at {show(self.last)}")
        if self.last < record.reaches:
            self.damage.append(f"the history ends at {show(self.last)}, but reached {show(record.reaches)} before")
        if epoch_of(self.last) > record.accepted:
            self.damage.append(f"the history ends at {show(self.last)}, but only epoch {record.accepted} was accepted")
            self.forgotten = True  # the record is outdated, so later promises are unknown
