"""Snapshot files: written beside the log, put in place by a rename, verified before use.

    file     magic 8, version 2, zxid 8, sum 4; chunks; end
    chunk    kind 1, length 4, data, sum 4
    end      kind 1, number of chunks 4, digest of the history 4, sum 4     (sizes in bytes, big-endian)

The kind of the end tells whether the digest is known; the digest is 0 if it is not.

Every sum is the CRC-32 of all bytes before it except the sums, so a missing, doubled or misplaced chunk makes a later
sum wrong. A local snapshot becomes `snapshot.<zxid>`. A snapshot from the leader first becomes `install.<zxid>`, and
this name makes the older history void.
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
"""The name of the file with the part of a leader's snapshot that arrived before the transfer was interrupted."""

_MAGIC: Final = b"zab.snp\n"
_VERSION: Final = 1
_FILE: Final = Struct(">8sHQ")
_CHUNK: Final = Struct(">BI")
_END: Final = Struct(">BII")
_SUM: Final = Struct(">I")
_DATA_KIND: Final = 1
_END_KIND: Final = 2
_END_WITHOUT_DIGEST_KIND: Final = 3

CHECKSUM_BYTES: Final = 16
"""The size of the checksum by which two servers compare the beginnings of their files.

A CRC-32 would be too weak: a false match would mix two states.
"""

_GATHER_BYTES: Final = 256 << 10
_SYNC_BYTES: Final = 8 << 20
"""The number of bytes between syncs of a growing snapshot: the log's next sync must not wait for all of it."""


class MisnamedError(DamagedError):
    """The zxid in the name of a snapshot file is not that of its content, which may be sound."""


def name_of(zxid: Zxid) -> str:
    return f"{SNAPSHOT}{zxid:x}"


class SnapshotFile:
    """A snapshot that is being written. It has no effect before `place`."""

    def __init__(self, disk: Disk, temporary: str, zxid: Zxid) -> None:
        self.zxid = zxid
        self.temporary = temporary
        """The name of the file until `place`."""
        self._disk = disk
        self._file: DiskFile | None = disk.create(temporary)
        """The open file; None once it is placed, kept or aborted."""
        self._offset = 0
        """The number of bytes that were written to the file."""
        self._unsynced = 0
        """The number of bytes that were written since the last sync."""
        self._chunks = 0
        self._sum = 0
        """CRC-32 of everything so far except the sums. It includes the gathered bytes."""
        self._gathered: list[bytes] = []
        """The bytes after `_offset`, not written yet."""
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

    def place(self, digest: int | None, name: str) -> None:
        """End the file, make it durable, and rename it. After a crash, `name` is a complete file or does not exist."""
        kind = _END_WITHOUT_DIGEST_KIND if digest is None else _END_KIND
        self._put(_END.pack(kind, self._chunks, digest or 0))
        self._put_sum()
        self._flush()
        file = self._open()
        file.sync()  # otherwise a crash may keep the rename and lose the content
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
        """Write the gathered chunks and close the file under its temporary name. Its content need not be durable."""
        self._flush()
        self._open().close()
        self._file = None


class SnapshotWriter:
    """A local snapshot, written by any thread while the log grows.

    After `finish` the snapshot is durable: call `Storage.purge`, which may remove older files. After an error call
    `abort`, which deletes the unfinished file.
    """

    def __init__(self, disk: Disk, zxid: Zxid, digest: int | None) -> None:
        self.zxid = zxid
        self.digest = digest
        self._file = SnapshotFile(disk, f"{name_of(zxid)}.tmp", zxid)

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)

    def finish(self) -> None:
        self._file.place(self.digest, name_of(self.zxid))

    def abort(self) -> None:
        self._file.abort()


def read_chunks(disk: Disk, name: str, behind: int = 0) -> Generator[bytes, None, tuple[Zxid, int | None]]:
    """Yield each chunk that ends after offset `behind`, then return the zxid and the history's digest, if known.

    Each chunk is yielded only after its checksum matched. Raise `DamagedError` at the first damage, after the chunks
    before it. To check the whole file first, call `verify`.
    """
    file = disk.open(name)
    try:
        reader = _SummingReader(file, name)
        chunks = _parse(reader)
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as stop:
                found: tuple[Zxid, int | None] = stop.value
                return found
            if reader.position > behind:
                yield chunk
    finally:
        file.close()


def _parse(reader: _SummingReader) -> Generator[bytes, None, tuple[Zxid, int | None]]:
    zxid = _parse_head(reader)
    kind, _, named = reader.name.partition(".")
    if is_zxid(named) and named != f"{zxid:x}":
        raise MisnamedError(
            f"{reader.name}: misnamed: the name says zxid 0x{named}, but the content ends at {zxid:#x}: "
            f"rename it to {kind}.{zxid:x}"
        )
    chunks = 0
    while True:
        chunk = _parse_chunk(reader)
        if isinstance(chunk, bytes):
            chunks += 1
            yield chunk
            continue
        count, digest = chunk
        if count != chunks or not reader.at_end():
            raise reader.damaged(
                "bytes follow the end" if count == chunks else f"{chunks} chunks, but {count} were written"
            )
        return zxid, digest


def _parse_head(reader: _SummingReader) -> Zxid:
    magic, version, zxid = _FILE.unpack(reader.take(_FILE.size))
    reader.check()
    if magic != _MAGIC:
        raise reader.damaged(f"{magic!r} is not the start of a snapshot file")
    if version != _VERSION:
        if reader.name == PARTIAL:
            # Report damage, so that the file is deleted and the server can start: the leader has the whole snapshot.
            raise reader.damaged(f"it is of format {version}")
        raise other_version(reader.name, version, _VERSION)
    return Zxid(zxid)


def _parse_chunk(reader: _SummingReader) -> bytes | tuple[int, int | None]:
    """Return a chunk, or at the end the number of chunks and the digest, if known."""
    kind, length = _CHUNK.unpack(reader.take(_CHUNK.size))
    if kind in (_END_KIND, _END_WITHOUT_DIGEST_KIND):
        (digest,) = _SUM.unpack(reader.take(_SUM.size))
        reader.check()
        return length, digest if kind == _END_KIND else None
    if kind != _DATA_KIND:
        raise reader.damaged(f"{kind} is not a kind of chunk")
    data = reader.take(length)
    reader.check()
    return data


class _SummingReader:
    """Reads a file forward in large pieces, and computes its checksums on the way."""

    def __init__(self, file: DiskFile, name: str, hashes: bool = False) -> None:
        self.name = name
        self._file = file
        self._size = file.size()
        self._buffer = b""
        self._at = 0  # the position in the buffer
        self._offset = 0  # the offset of the buffer's end in the file
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
        """The offset in the file of the next byte to return."""
        return self._offset - len(self._buffer) + self._at

    def checksum(self) -> bytes:
        """Return the BLAKE2b checksum of the bytes before `position`. Requires `hashes`."""
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
                raise self.damaged("the end of the file is missing")
            more = self._file.read(self._offset, max(missing, _GATHER_BYTES))
            self._offset += len(more)
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
            if len(self._buffer) < length:
                raise self.damaged("the end of the file is missing")
        data = self._buffer[self._at : self._at + length]
        self._at += length
        if self._hash is not None:
            self._hash.update(data)
        return data


def kept(disk: Disk) -> SnapHeld | None:
    """Return zxid, size and checksum of the sound beginning of PARTIAL.

    Return None if there is no PARTIAL, or if it has no sound chunk or is a complete snapshot.
    """
    if PARTIAL not in disk.list():
        return None
    file = disk.open(PARTIAL)
    found = None
    try:
        reader = _SummingReader(file, PARTIAL, hashes=True)
        zxid = _parse_head(reader)
        while isinstance(_parse_chunk(reader), bytes):
            found = SnapHeld(zxid, reader.position, reader.checksum())
    except DamagedError:
        return found  # an incomplete or damaged chunk, after an interruption or a crash
    finally:
        file.close()
    return None


def resumed(disk: Disk, held: SnapHeld) -> SnapshotFile:
    """Begin INCOMING with a copy of the held chunks of PARTIAL. They are copied because PARTIAL may not be durable."""
    arriving = SnapshotFile(disk, INCOMING, held.zxid)
    file = disk.open(PARTIAL)
    try:
        reader = _SummingReader(file, PARTIAL)
        _parse_head(reader)
        while reader.position < held.size:
            chunk = _parse_chunk(reader)
            if not isinstance(chunk, bytes):
                raise reader.damaged("the kept file is already complete")
            arriving.write(chunk)
    finally:
        file.close()
    return arriving


def find(disk: Disk, held: SnapHeld) -> FoundSnapshot | None:
    """Return the snapshot at `held.zxid` if it is sound and begins with the bytes held by another server, else None."""
    name = name_of(held.zxid)
    if name not in disk.list():
        return None
    file = disk.open(name)
    try:
        reader = _SummingReader(file, name, hashes=True)
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


def verify(disk: Disk, name: str) -> int | None:
    """Read the whole file and return the history's digest, if known. Raise `DamagedError` if the file is not sound."""
    chunks = read_chunks(disk, name)
    while True:
        try:
            next(chunks)
        except StopIteration as stop:
            digest: int | None = stop.value[1]
            return digest


def size_of(disk: Disk, name: str) -> int:
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()


def is_zxid(text: str) -> bool:
    """Return whether the text is a zxid as in the names of files: lowercase hexadecimal digits."""
    return bool(text) and not text.strip("0123456789abcdef")


def listed(names: tuple[str, ...], prefix: str) -> list[Zxid]:
    """Return the zxids of the files with this prefix, newest first."""
    found = []
    for name in names:
        if name.startswith(prefix):
            number = name[len(prefix) :]
            if is_zxid(number):
                found.append(Zxid(int(number, 16)))
    return sorted(found, reverse=True)
