"""Snapshots: whole files, written beside the work, put in place by a rename, checked before they are believed.

    file     magic 8, version 2, zxid 8, sum 4; chunks; end
    chunk    kind 1, length 4, data, sum 4
    end      kind 1, number of chunks 4, digest of the history 4, sum 4                  (big-endian)

Every sum is the CRC-32 of everything before it but the sums, so a chunk that is missing, doubled or out of
place is noticed at that chunk. A local snapshot becomes `snapshot.<zxid>`; one that came from the leader first becomes
`install.<zxid>`, and that name alone is what makes the older history void.
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import blake2b
from struct import Struct
from typing import Final
from zlib import crc32

from zab.core.errors import DamagedError, LocalProtocolError
from zab.core.messages import SnapHeld
from zab.core.ready import FoundSnapshot
from zab.core.zxid import Zxid, show
from zab.storage.disk import Disk, DiskFile, other_version

SNAPSHOT: Final = "snapshot."
INSTALL: Final = "install."
INCOMING: Final = "incoming.tmp"
PARTIAL: Final = "partial.tmp"
"""What arrived of a snapshot before the leader was lost: the beginning of a file, without its end."""

_MAGIC: Final = b"zab.snp\n"
_VERSION: Final = 1
_FILE: Final = Struct(">8sHQ")
_CHUNK: Final = Struct(">BI")
_END: Final = Struct(">BII")
_SUM: Final = Struct(">I")
_DATA_KIND: Final = 1
_END_KIND: Final = 2

CHECKSUM_BYTES: Final = 16
"""Of the beginning of a file that two servers compare. More than a CRC-32: if it is wrong, two states are mixed."""

_GATHER_BYTES: Final = 256 << 10
_SYNC_BYTES: Final = 8 << 20
"""Synced this often while it is written, so that the log's next sync does not have to wait for all of it."""


def name_of(zxid: Zxid) -> str:
    return f"{SNAPSHOT}{zxid:x}"


class SnapshotFile:
    """A snapshot being written. It has no effect whatever until it is put in place."""

    def __init__(self, disk: Disk, temporary: str, zxid: Zxid) -> None:
        self.zxid = zxid
        self.temporary = temporary
        self._disk = disk
        self._file: DiskFile | None = disk.create(temporary)
        self._offset = self._unsynced = self._chunks = self._sum = 0
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._put(_FILE.pack(_MAGIC, _VERSION, zxid))
        self._put_sum()

    def write(self, chunk: bytes) -> None:
        self._open()
        size = len(chunk)
        head = _CHUNK.pack(_DATA_KIND, size)
        self._sum = total = crc32(chunk, crc32(head, self._sum))
        self._gathered += (head, chunk, _SUM.pack(total))
        self._gathered_bytes += size + _CHUNK.size + _SUM.size
        self._chunks += 1
        if self._gathered_bytes > _GATHER_BYTES:
            self._flush()

    def place(self, digest: int, name: str) -> None:
        """End it, make it durable, give it its name. After a crash either it is there, whole, or it is not."""
        self._put(_END.pack(_END_KIND, self._chunks, digest))
        self._put_sum()
        self._flush()
        file = self._open()
        file.sync()  # without this the rename may survive a crash and the content not
        file.close()
        self._file = None
        self._disk.rename(self.temporary, name)
        self._disk.sync_dir()

    def abort(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.delete(self.temporary)

    def _put(self, data: bytes) -> None:
        self._sum = crc32(data, self._sum)
        self._gather(data)

    def _put_sum(self) -> None:
        self._gather(_SUM.pack(self._sum))

    def _gather(self, data: bytes) -> None:
        self._gathered.append(data)
        self._gathered_bytes += len(data)

    def _flush(self) -> None:
        file = self._open()
        data = b"".join(self._gathered)
        file.write(self._offset, data)
        self._offset += len(data)
        self._unsynced += len(data)
        self._gathered.clear()
        self._gathered_bytes = 0
        if self._unsynced > _SYNC_BYTES:
            file.sync()
            self._unsynced = 0

    def _open(self) -> DiskFile:
        if self._file is None:
            raise LocalProtocolError(f"the snapshot at {show(self.zxid)} is finished or aborted")
        return self._file

    def keep(self) -> None:
        """Write what was handed over, under the temporary name. Nothing of it need be durable."""
        self._flush()
        self._open().close()
        self._file = None


class SnapshotWriter:
    """A local snapshot, written by any thread while the log goes on. Nothing of the log waits for it.

    When `finish` returns the snapshot is durable; then let `Storage.purge` remove what it makes superfluous.
    After an error, `abort`: a snapshot that failed harms nobody but the disk space.
    """

    def __init__(self, disk: Disk, zxid: Zxid, digest: int) -> None:
        self.zxid = zxid
        self.digest = digest
        self._file = SnapshotFile(disk, f"{name_of(zxid)}.tmp", zxid)

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)

    def finish(self) -> None:
        self._file.place(self.digest, name_of(self.zxid))

    def abort(self) -> None:
        self._file.abort()


def read_chunks(disk: Disk, name: str, behind: int = 0) -> Generator[bytes, None, tuple[Zxid, int]]:
    """The chunks, each handed out when its sum is right; at the end the zxid and the history's digest.

    DamagedError at the first thing that is wrong. To hand out nothing of a damaged file, `verify` it first.
    """
    file = disk.open(name)
    try:
        reader = _Reader(file, name)
        chunks = _parse(reader)
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as stop:
                found: tuple[Zxid, int] = stop.value
                return found
            if reader.position > behind:
                yield chunk
    finally:
        file.close()


def _parse(reader: _Reader) -> Generator[bytes, None, tuple[Zxid, int]]:
    zxid = _parse_head(reader)
    if reader.name.partition(".")[2] != f"{zxid:x}":
        raise reader.damaged(f"its header says that it is the snapshot at {show(zxid)}")
    chunks = 0
    while True:
        chunk = _parse_chunk(reader)
        if isinstance(chunk, bytes):
            chunks += 1
            yield chunk
            continue
        count, digest = chunk
        if count != chunks or not reader.at_end():
            raise reader.damaged(f"{chunks} of {count} chunks, or something behind the end")
        return zxid, digest


def _parse_head(reader: _Reader) -> Zxid:
    magic, version, zxid = _FILE.unpack(reader.take(_FILE.size))
    reader.check()
    if magic != _MAGIC:
        raise reader.damaged(f"{magic!r} is no snapshot of ours")
    if version != _VERSION:
        if reader.name == PARTIAL:
            raise reader.damaged(f"it is of format {version}")  # the leader has the whole of it
        raise other_version(reader.name, version, _VERSION)
    return Zxid(zxid)


def _parse_chunk(reader: _Reader) -> bytes | tuple[int, int]:
    """A chunk, or of the end the number of chunks and the digest."""
    kind, length = _CHUNK.unpack(reader.take(_CHUNK.size))
    if kind == _END_KIND:
        (digest,) = _SUM.unpack(reader.take(_SUM.size))
        reader.check()
        return length, digest
    if kind != _DATA_KIND:
        raise reader.damaged(f"{kind} is no kind of chunk")
    data = reader.take(length)
    reader.check()
    return data


class _Reader:
    """Reads forward through a file in large pieces, and sums as it goes."""

    def __init__(self, file: DiskFile, name: str, hashes: bool = False) -> None:
        self.name = name
        self._file = file
        self._size = file.size()
        self._buffer = b""
        self._at = 0  # in the buffer
        self._offset = 0  # of the buffer's end in the file
        self._sum = 0
        self._hash = blake2b(digest_size=CHECKSUM_BYTES) if hashes else None

    def take(self, length: int) -> bytes:
        data = self._next(length)
        self._sum = crc32(data, self._sum)
        return data

    def check(self) -> None:
        if _SUM.unpack(self._next(_SUM.size))[0] != self._sum:
            raise self.damaged("the checksum is wrong")

    @property
    def position(self) -> int:
        """So many bytes of the file were read."""
        return self._offset - len(self._buffer) + self._at

    def checksum(self) -> bytes:
        """That of the bytes that were read."""
        assert self._hash is not None
        return self._hash.digest()

    def at_end(self) -> bool:
        return self.position == self._size

    def damaged(self, what: str) -> DamagedError:
        return DamagedError(f"{self.name}: offset {self.position}: {what}")

    def _next(self, length: int) -> bytes:
        missing = length - (len(self._buffer) - self._at)
        if missing > 0:
            if missing > self._size - self._offset:
                raise self.damaged("the file ends in the middle")
            more = self._file.read(self._offset, max(missing, _GATHER_BYTES))
            self._offset += len(more)
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
            if len(self._buffer) < length:
                raise self.damaged("the file ends in the middle")
        data = self._buffer[self._at : self._at + length]
        self._at += length
        if self._hash is not None:
            self._hash.update(data)
        return data


def kept(disk: Disk) -> SnapHeld | None:
    """What PARTIAL holds: as many chunks as are whole and sound. None if there are none."""
    if PARTIAL not in disk.list():
        return None
    file = disk.open(PARTIAL)
    found = None
    try:
        reader = _Reader(file, PARTIAL, hashes=True)
        zxid = _parse_head(reader)
        while isinstance(_parse_chunk(reader), bytes):
            found = SnapHeld(zxid, reader.position, reader.checksum())
    except DamagedError:
        return found  # it ends in the middle: where it was cut, or where a crash has left it
    finally:
        file.close()
    return None


def resumed(disk: Disk, held: SnapHeld) -> SnapshotFile:
    """INCOMING again, with what is `held` in PARTIAL: written anew, because of that nothing need be durable."""
    arriving = SnapshotFile(disk, INCOMING, held.zxid)
    file = disk.open(PARTIAL)
    try:
        reader = _Reader(file, PARTIAL)
        _parse_head(reader)
        while reader.position < held.size:
            chunk = _parse_chunk(reader)
            if not isinstance(chunk, bytes):
                raise reader.damaged("it has an end")
            arriving.write(chunk)
    finally:
        file.close()
    return arriving


def find(disk: Disk, held: SnapHeld) -> FoundSnapshot | None:
    """The snapshot file at `held.zxid` if it is sound to its end and begins with the bytes that are held elsewhere."""
    name = name_of(held.zxid)
    if name not in disk.list():
        return None
    file = disk.open(name)
    try:
        reader = _Reader(file, name, hashes=True)
        _parse_head(reader)
        same = False
        while True:
            chunk = _parse_chunk(reader)
            if not isinstance(chunk, bytes):
                return FoundSnapshot(chunk[1], reader.position) if same and reader.at_end() else None
            if reader.position == held.size:
                same = reader.checksum() == held.checksum
    except DamagedError:
        return None
    finally:
        file.close()


def verify(disk: Disk, name: str) -> int:
    """Read all of it; the history's digest. DamagedError when anything is wrong."""
    chunks = read_chunks(disk, name)
    while True:
        try:
            next(chunks)
        except StopIteration as stop:
            _zxid, digest = stop.value
            return int(digest)


def size_of(disk: Disk, name: str) -> int:
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()


def listed(names: tuple[str, ...], prefix: str) -> list[Zxid]:
    """The zxids of the files with this prefix, newest first."""
    found = []
    for name in names:
        if name.startswith(prefix):
            number = name[len(prefix) :]
            if number and not number.strip("0123456789abcdef"):
                found.append(Zxid(int(number, 16)))
    return sorted(found, reverse=True)
