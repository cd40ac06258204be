"""A file that is read in chunks, presented as one sequence of bytes.

A file may be too large for the memory, so only the current part is held. The Adler-32 of all earlier bytes is kept,
because ZooKeeper's checksums in a snapshot cover everything before them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from zab.core.errors import DamagedError

RECORD_BYTES_MAX: Final = 64 << 20
"""The maximum length of a record in bytes, about 64 times the default of `jute.maxbuffer`. A longer one is damage."""


class Source:
    """A file and its current part. The bytes read and not yet consumed are `data[position:]`; `more` reads more."""

    __slots__ = ("_adler", "_bytes_max", "_chunks", "_passed", "_summed", "data", "position")

    def __init__(self, chunks: Iterable[bytes], bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._bytes_max = bytes_max
        self._adler = 1
        self._passed = 0
        self._summed = 0
        self.data = b""
        self.position = 0

    @property
    def offset(self) -> int:
        """The offset of `position` in the file."""
        return self._passed + self.position

    def more(self) -> bool:
        """Read more and return True, or return False at the end of the file.

        Raise `DamagedError` if more bytes are unconsumed than a record may have.

        Each call at least doubles the unconsumed bytes until the file ends, so a large record is copied rarely.
        """
        kept = self.data[self.position :]
        if len(kept) > self._bytes_max:
            raise DamagedError(f"at byte {self.offset}: a record has more than {self._bytes_max} bytes")
        parts, size, wanted = [kept], len(kept), 2 * len(kept) + 1
        for chunk in self._chunks:
            parts.append(chunk)
            size += len(chunk)
            if size >= wanted:
                break
        if size == len(kept):
            return False
        self.checksum()
        self._passed += self.position
        self.data = b"".join(parts)
        self.position = self._summed = 0
        return True

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, or fewer at the end of the file.

        Raise `DamagedError` if `count` is larger than any record may be.
        """
        if count > self._bytes_max:
            raise DamagedError(
                f"at byte {self.offset}: a record of {count} bytes: at most {self._bytes_max} are allowed"
            )
        while len(self.data) - self.position < count and self.more():
            pass
        taken = self.data[self.position : self.position + count]
        self.position += len(taken)
        return taken

    def checksum(self) -> int:
        """Return the Adler-32 of everything before `position`."""
        self._adler = zlib.adler32(self.data[self._summed : self.position], self._adler)
        self._summed = self.position
        return self._adler

    def only_zeros_behind(self) -> bool:
        """Return True if all bytes up to the end of the file are zeros. The bytes read are consumed."""
        zeros = not self.data[self.position :].strip(b"\0")
        self.position = len(self.data)
        while zeros and self.more():
            zeros = not self.data.strip(b"\0")
            self.position = len(self.data)
        return zeros
