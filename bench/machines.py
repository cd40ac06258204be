"""The state machines under measurement: as little as possible of their own, so that the library is measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgpack

import zab

SLOTS: Final = 4096
CHUNK_VALUES: Final = 10_000


class Counter(zab.Passive):
    """Keeps the newest 4,096 payloads: a state of constant size, however long the history."""

    def __init__(self) -> None:
        self.count = 0
        self._slots: list[bytes] = [b""] * SLOTS

    def apply(self, zxid: zab.Zxid, txn: bytes) -> int:
        count = self.count
        self._slots[count % SLOTS] = txn
        self.count = count + 1
        return count

    def snapshot(self) -> Iterable[bytes]:
        return iter([msgpack.packb([self.count, self._slots])])

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.count, self._slots = msgpack.unpackb(b"".join(chunks))


class Tape(zab.Passive):
    """Keeps everything, in order; the answer to a write is its place. What two servers hold can be compared."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    @property
    def count(self) -> int:
        return len(self.values)

    def apply(self, zxid: zab.Zxid, txn: bytes) -> int:
        self.values.append(txn)
        return len(self.values) - 1

    def snapshot(self) -> Iterable[bytes]:
        return _chunks(self.values, len(self.values))

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.values = [value for chunk in chunks for value in msgpack.unpackb(chunk)]


def _chunks(values: list[bytes], count: int) -> Iterator[bytes]:
    """The list only grows, so its first `count` values are a snapshot without a copy."""
    for start in range(0, count, CHUNK_VALUES):
        yield msgpack.packb(list(islice(values, start, min(start + CHUNK_VALUES, count))))
