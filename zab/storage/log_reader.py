"""Read the log for a peer that is far behind, in another thread than the one that appends.

The reader opens the files itself. It stops at `until`, which must be durable when the read begins, so it never yields a
record that is being written. If a file is purged or cut meanwhile, the reader raises `Purged`, and the peer gets a
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from zab.core.batch import Batch
from zab.core.errors import DamagedError, LocalProtocolError, StorageError, ZabError
from zab.core.zxid import Zxid, show
from zab.storage.disk import Disk, read_all
from zab.storage.segment import Segment, decode_segment, scan


class Purged(ZabError):
    """The log on disk no longer holds the requested transactions. Send a snapshot instead."""


def read_batches(disk: Disk, segments: tuple[Segment, ...], after: Zxid, until: Zxid) -> Iterator[Batch]:
    """Yield the batches of (`after`, `until`] from these files. The first file's `previous` is at most `after`.

    Raise `LocalProtocolError` if this history does not contain `after`. Raise `DamagedError` for an unreadable record,
    another `StorageError` for another failure of the disk, and `Purged` if the files changed, possibly after some
    batches.
    """
    last = after
    for index, segment in enumerate(segments):
        following = segments[index + 1].previous if index + 1 < len(segments) else until
        if following <= after or last >= until:
            continue
        data = _read(disk, segment)
        found = scan(data, segment, after=after, until=until)
        if found.trouble is not None and found.last < min(until, following):
            raise DamagedError(f"{segment.name}: offset {found.end}: {found.trouble}")
        if last == after and (found.epoch_ends or [segment.previous])[-1] != after:
            raise LocalProtocolError(f"{show(after)} is not in this history")
        for batch in found.batches:
            if batch.last > until:
                batch = batch.until(until)
            if batch.first <= after:
                batch = batch.after(after)
            last = batch.last
            yield batch
    if last != until:
        raise Purged(f"the log now ends at {show(last)}: {show(until)} was cut off")


def _read(disk: Disk, segment: Segment) -> bytes:
    try:
        data = read_all(disk, segment.name)
    except StorageError:
        if segment.name in disk.list():
            raise
        raise Purged(f"{segment.name} was purged while it was being read") from None
    if decode_segment(segment.name, data) != segment:
        raise Purged(f"{segment.name} was replaced while it was being read")
    return data
