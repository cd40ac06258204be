"""ZooKeeper's transaction log files, for import and export.

    16 bytes of header, then records, then zeros to the end of the preallocated file
    record: Adler-32 of the payload, its length, the payload, the letter B

A crash may leave the last record half written: its letter is then missing, and the log ends before it. A record with
its letter and a wrong checksum is damage, and nothing after it is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from zab.core.errors import DamagedError
from zab.wire.disk_source import RECORD_BYTES_MAX, Source
from zab.wire.disk_txn import HEAD, FileTxn, decode_txn, encode_txn

_FILE_HEAD: Final = Struct(">4siq")
_RECORD_HEAD: Final = Struct(">qi")
_END: Final = b"B"
MAGIC: Final = b"ZKLG"
VERSION: Final = 2
FILE_HEAD: Final = _FILE_HEAD.pack(MAGIC, VERSION, 0)


class LogReader:
    """Iterate over the transactions of one file, once. Afterwards `end` and `torn` tell how the file ended."""

    def __init__(self, chunks: Iterable[bytes], record_bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._source = Source(chunks, record_bytes_max)
        self.end = 0
        """The offset after the last whole record. Cut the file to this size before appending."""
        self.torn = False
        """True if there are bytes other than zeros after the last whole record."""

    def __iter__(self) -> Iterator[FileTxn]:
        """Yield the transactions as ZooKeeper's `FileTxnLog` reads them.

        The log ends at the end of the file, at a length of 0 (preallocated zeros), or at a record without its letter,
        which a crash leaves. Another kind or version of file, an impossible length, and a complete record with a wrong
        checksum or content raise `DamagedError`.
        """
        source = self._source
        head = source.take(_FILE_HEAD.size)
        if not head:
            return
        if len(head) < _FILE_HEAD.size or not head.startswith(MAGIC):
            raise DamagedError("not a transaction log of ZooKeeper: it does not begin with ZKLG")
        _, version, _ = _FILE_HEAD.unpack(head)
        if version != VERSION:
            raise DamagedError(f"a transaction log of version {version}; only version {VERSION} can be read")
        while True:
            self.end = source.offset
            head = source.take(_RECORD_HEAD.size)
            if len(head) < _RECORD_HEAD.size:
                self.torn = bool(head.strip(b"\0"))
                return
            checksum, length = _RECORD_HEAD.unpack(head)
            if length == 0:
                self.torn = checksum != 0 or not source.only_zeros_behind()
                return
            if length < HEAD.size:
                raise DamagedError(f"at byte {self.end}: a record of {length} bytes: at least {HEAD.size} are needed")
            record = source.take(length + 1)
            if len(record) <= length or not record.endswith(_END):
                self.torn = True
                return
            payload = record[:-1]
            if zlib.adler32(payload) != checksum:
                raise DamagedError(f"at byte {self.end}: the record does not match its checksum")
            try:
                txn = decode_txn(payload)
            except DamagedError as error:
                raise DamagedError(f"at byte {self.end}: {error}") from error
            yield txn


def encode_record(txn: FileTxn) -> bytes:
    payload = encode_txn(txn)
    return _RECORD_HEAD.pack(zlib.adler32(payload), len(payload)) + payload + _END


def log_chunks(txns: Iterable[FileTxn], padded_to_bytes: int = 0) -> Iterator[bytes]:
    """Yield a log file in parts.

    Zeros up to `padded_to_bytes` imitate ZooKeeper's preallocation. ZooKeeper also reads a file without them.
    """
    written = len(FILE_HEAD)
    yield FILE_HEAD
    for txn in txns:
        record = encode_record(txn)
        written += len(record)
        yield record
    if written < padded_to_bytes:
        yield bytes(padded_to_bytes - written)
