"""The write-ahead log: appends in groups, one sync per group, in files of bounded size.

A group of batches is gathered in memory. Usually one write and one sync make it durable, however many batches it has. A
group of more than `GATHER_BYTES_MAX` may take several writes. A group that spans several files takes several syncs.
Each file names the zxid before its first one (`previous`). The epochs record names a new file before the first record
in it is acknowledged, so recovery notices a missing file.
"""

from __future__ import annotations

from typing import Final

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.zxid import NOTHING, Zxid, follows, show
from zab.storage.disk import Disk, DiskFile, read_all
from zab.storage.epochs import EpochsFile
from zab.storage.segment import (
    FILE_HEAD,
    OVERHEAD,
    Segment,
    decode_record_head,
    decode_segment,
    encode_record,
    encode_segment,
    scan,
)

GATHER_BYTES_MAX: Final = 1 << 20
"""The size above which a group is written early, so that memory does not hold a huge group twice."""

AHEAD_BYTES: Final = 256 << 10
"""The length of the zeros that are written ahead of the records. A sync that does not change the file's size or extents
takes half the time. Zeros for a whole segment at once would delay one write too long."""


class TransactionLog:
    """The files of the log, with the newest one open for appending.

    Offsets in the newest file: `_synced` <= `_written` <= `_end`. The bytes from `_written` to `_zeroed`, if there are
    any, are zeros that were written ahead.
    """

    def __init__(
        self,
        disk: Disk,
        epochs: EpochsFile,
        segment_bytes: int,
        preallocate: bool,
        segments: tuple[Segment, ...],
        start: Zxid,
        last: Zxid,
        end: int,
    ) -> None:
        """Open a log that ends at `last`, at offset `end` of the last segment, and is durable up to there."""
        assert start <= last or not segments
        self.segments = segments
        """The files, oldest first; each one's `previous` is the last zxid of the file before it."""
        self.start = start
        """The log holds everything in (`start`, `last`]."""
        self.last = last
        """The end of the log, durable or not."""
        self.durable = last
        """The durable end of the log; at most `last`, and equal to it after `sync`."""
        self._disk = disk
        self._epochs = epochs
        self._segment_bytes = segment_bytes
        self._preallocate = preallocate
        self._file: DiskFile | None = disk.open(segments[-1].name) if segments else None
        """The newest file; None if the next append creates one."""
        self._seed = segments[-1].seed if segments else 0
        """The `Segment.seed` of the newest file; without meaning if there is none."""
        self._end = self._written = self._synced = self._zeroed = end
        self._gathered: list[bytes] = []
        """The bytes of the newest file from `_written` to `_end`."""
        self._roll_next = False
        """True if the next append must begin a new file."""

    @property
    def newest(self) -> Zxid:
        """The first zxid of the newest file, which the epochs record names; NOTHING without files."""
        return self.segments[-1].first if self.segments else NOTHING

    @property
    def oldest(self) -> Zxid:
        """The first zxid of the oldest file; NOTHING without files."""
        return self.segments[0].first if self.segments else NOTHING

    # -- appending -------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Add a batch to the group. It is durable after the next `sync`."""
        last = self.last
        if not follows(batch.first, last):
            raise LocalProtocolError(f"{show(batch.first)} does not follow {show(last)}: the log would have a gap")
        size = OVERHEAD + len(batch.body)
        if self._file is None or self._roll_next or self._end + size > self._segment_bytes:
            self._make_room(batch.first)
        self._gathered += encode_record(batch, last, self._synced, self._end, self._seed)
        self._end += size
        self.last = batch.last
        if self._end - self._written > GATHER_BYTES_MAX:
            self._write()

    def sync(self) -> None:
        """Make everything appended so far durable."""
        if self._end == self._synced:
            return
        assert self._file is not None
        self._write()
        self._file.sync()
        self._synced = self._end
        self.durable = self.last

    def roll(self) -> None:
        """Begin a new file with the next append, so that the current one can be purged as a whole."""
        self._roll_next = True

    def _write(self) -> None:
        if not self._gathered:
            return
        assert self._file is not None
        if self._preallocate and self._end > self._zeroed:
            self._zeroed = min(self._end + AHEAD_BYTES, self._segment_bytes)
            self._gathered.append(bytes(max(0, self._zeroed - self._end)))
        self._file.write(self._written, b"".join(self._gathered))
        self._gathered.clear()
        self._written = self._end

    def _make_room(self, first: Zxid) -> None:
        self._roll_next = False
        self.sync()  # records in a newer file must not survive a crash that loses the records before them
        allocated = self._segment_bytes if self._preallocate else 0
        segment, head = encode_segment(first, self.last, allocated)
        self._close_file()
        self._file = self._disk.create(segment.name)
        self._file.allocate(allocated)
        self._file.write(0, head)
        self._file.sync()
        self._disk.sync_dir()
        self._epochs.note(self.last, segment.first)
        self.segments += (segment,)
        self._seed = segment.seed
        self._end = self._written = self._synced = self._zeroed = FILE_HEAD

    # -- cutting ---------------------------------------------------------------------------------

    def truncate(self, zxid: Zxid) -> None:
        """Remove everything after `zxid`, which must be in the log or be `start`. On return the cut is durable.

        After a crash before the return, the log ends at `zxid` or at some later transaction.
        """
        if zxid == self.last:
            return
        if not self.start <= zxid < self.last:
            raise LocalProtocolError(
                f"cannot truncate to {show(zxid)}: the log begins after {show(self.start)}, and ends at "
                f"{show(self.last)}"
            )
        self.sync()
        if zxid == self.start:
            self._drop_all(zxid)
            return
        index = max(index for index, segment in enumerate(self.segments) if segment.previous < zxid)
        segment = self.segments[index]
        data = read_all(self._disk, segment.name)
        found = scan(data, decode_segment(segment.name, data), after=Zxid(zxid - 1), until=zxid)
        if found.trouble is not None:
            raise DamagedError(f"{segment.name}: offset {found.end}: {found.trouble}")
        if not found.batches or found.batches[0].first > zxid:
            raise LocalProtocolError(f"cannot truncate to {show(zxid)}: the log has no such transaction")
        self._epochs.note(min(self._epochs.record.reaches, zxid), segment.first)
        for later in self.segments[index + 1 :]:
            # If a crash keeps its name, recovery takes the file back only if the log is still complete before it.
            self._disk.delete(later.name)
        content = data[: found.end]
        if found.last > zxid:
            content = data[: found.last_at] + _shorten(data, segment, found.last_at, found.batches[-1], zxid)
        rewrite(self._disk, segment, content)
        self._close_file()
        self._file = self._disk.open(segment.name)
        self._seed = segment.seed
        self._end = self._written = self._synced = self._zeroed = len(content)
        self.segments = self.segments[: index + 1]
        self.last = self.durable = zxid

    def reset(self, zxid: Zxid) -> None:
        """Restart as an empty log after `zxid`. The caller deletes all files or makes them void."""
        self._close_file()
        self._gathered.clear()
        self.segments = ()
        self.start = self.last = self.durable = zxid
        self._end = self._written = self._synced = self._zeroed = 0
        self._roll_next = False

    def _drop_all(self, zxid: Zxid) -> None:
        self._epochs.note(min(self._epochs.record.reaches, zxid), NOTHING)
        for segment in self.segments:
            self._disk.delete(segment.name)
        self._disk.sync_dir()
        self.reset(zxid)

    def purge(self, zxid: Zxid) -> None:
        """Remove the files without a transaction after `zxid`, oldest first, but never the newest file."""
        while len(self.segments) > 1 and self.segments[1].previous <= zxid:
            self._disk.delete(self.segments[0].name)
            self.start = max(self.start, self.segments[1].previous)  # before `segments`: a reader reads `start` last
            self.segments = self.segments[1:]

    def close(self) -> None:
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def rewrite(disk: Disk, segment: Segment, content: bytes) -> None:
    """Replace a segment by its beginning, atomically. On return the new file is durable.

    If the file were cut in place, a crash could damage it.
    """
    temporary = f"{segment.name}.tmp"
    file = disk.create(temporary)
    try:
        file.allocate(segment.allocated)
        file.write(0, content)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, segment.name)
    disk.sync_dir()


def _shorten(data: bytes, segment: Segment, at: int, batch: Batch, zxid: Zxid) -> bytes:
    """Return the record at this offset without the transactions after `zxid`."""
    head = decode_record_head(data, at, segment.seed)
    assert head is not None
    return b"".join(encode_record(batch.until(zxid), head.previous, head.synced, at, segment.seed))
