"""The replicated machine of the system under test `list`: the list of all applied transactions.

A transaction that is lost, repeated or out of order changes the state for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Final, Protocol
from zlib import crc32

from zab.core.batch import Batch
from zab.core.zxid import NOTHING, Zxid

_HEAD: Final = Struct(">QH")


def entry(zxid: Zxid, payload: bytes) -> bytes:
    return _HEAD.pack(zxid, len(payload)) + payload


@lru_cache(256)
def entries(batch: Batch) -> bytes:
    """Return the entries that a batch adds to the state. Cached: all servers apply a batch at about the same time."""
    return b"".join([entry(Zxid(batch.first + place), payload) for place, payload in enumerate(batch.payloads())])


class Replicated(Protocol):
    """The machine of a simulated server."""

    @property
    def zxid(self) -> Zxid: ...
    @property
    def count(self) -> int:
        """The number of applied transactions, which decides when a snapshot is due."""
        ...

    @property
    def digest(self) -> int:
        """A checksum of the whole state."""
        ...

    def snapshot(self) -> list[bytes]: ...
    def restore(self, chunks: Iterable[bytes]) -> None: ...


class Machine:
    """A list of applied transactions. `digest` is a checksum of all of `data`, continued from entry to entry."""

    __slots__ = ("chunk_bytes", "count", "data", "digest", "zxid")

    def __init__(self, chunk_bytes: int = 256) -> None:
        self.chunk_bytes = chunk_bytes
        self.data = bytearray()
        self.digest = 0
        self.zxid = NOTHING
        self.count = 0

    def apply(self, batch: Batch) -> None:
        added = entries(batch)
        self.data += added
        self.digest = crc32(added, self.digest)
        self.zxid = batch.last
        self.count += batch.count

    def add(self, zxid: Zxid, payload: bytes) -> None:
        """Add one transaction of a batch whose transactions are applied one by one."""
        made = entry(zxid, payload)
        self.data += made
        self.digest = crc32(made, self.digest)
        self.zxid = zxid
        self.count += 1

    def snapshot(self) -> list[bytes]:
        state, size = bytes(self.data), self.chunk_bytes
        return [state[at : at + size] for at in range(0, len(state), size)] or [b""]

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the state. The checksum is computed from the chunks, so that a damaged snapshot is noticed."""
        self.data = bytearray(b"".join(chunks))
        self.digest = crc32(self.data)
        at = count = 0
        zxid = 0
        while at < len(self.data):
            zxid, length = _HEAD.unpack_from(self.data, at)
            at += _HEAD.size + length
            count += 1
        self.zxid = Zxid(zxid)
        self.count = count
