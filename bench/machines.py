"""The state machine under measurement: as little as possible of their own, so that the library is measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgpack

import zab

SLOTS: Final = 4096


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
