"""The demonstration machine: a map from keys to values, in words that a person types."""

from __future__ import annotations

from collections.abc import Iterable

import msgpack

from zab.core.zxid import Zxid, show
from zab.runtime.errors import Refused
from zab.runtime.machine import View

CHUNK_ITEMS = 1_000
WRITES = ("set", "delete", "add")


class KeyValue:
    """`set KEY VALUE`, `delete KEY`, `add KEY NUMBER`. The result says at which zxid it happened."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}

    def prepare(self, request: bytes, view: View) -> bytes:
        """Only what makes no sense at all is refused here; what depends on the state is decided when applied."""
        words = request.decode("utf-8", "replace").split(" ", 2)
        if words[0] not in WRITES or len(words) != (2 if words[0] == "delete" else 3) or not words[1]:
            raise Refused(f"expected one of: {', '.join(map(usage, WRITES))}")
        if words[0] == "add" and not words[2].lstrip("-").isdecimal():
            raise Refused(f"{words[2]!r} is no whole number")
        return request

    def apply(self, zxid: Zxid, txn: bytes) -> str:
        word, key, *value = txn.decode("utf-8", "replace").split(" ", 2)
        items = self.items
        if word == "set":
            items[key] = value[0]
        elif word == "delete":
            items.pop(key, None)
        else:
            old = items.get(key, "0")
            items[key] = str(int(value[0]) + (int(old) if old.lstrip("-").isdecimal() else 0))
            return f"{items[key]} zxid={show(zxid)}"
        return f"zxid={show(zxid)}"

    def snapshot(self) -> Iterable[bytes]:
        items = list(self.items.items())
        return (msgpack.packb(items[start : start + CHUNK_ITEMS]) for start in range(0, len(items), CHUNK_ITEMS))

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.items = {key: value for chunk in chunks for key, value in msgpack.unpackb(chunk)}


def usage(word: str) -> str:
    return {"set": "set KEY VALUE", "delete": "delete KEY", "add": "add KEY NUMBER"}[word]
