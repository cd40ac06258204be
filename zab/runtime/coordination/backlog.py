"""What clients do not read waits in memory. For each of them there is a bound; here is the one for all together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import trio

from zab.runtime.logs import Log

LOOK_S: Final = 0.25


class Backlogged(Protocol):
    peer: str

    @property
    def unsent(self) -> int:
        """Bytes."""

    @property
    def sent(self) -> int: ...
    def cut(self, why: str) -> None: ...


class Backlog:
    """Who has taken nothing since the last look goes first, the largest in front; in need, whoever holds most."""

    def __init__(self, bytes_max: int, log: Log) -> None:
        self._bytes_max = bytes_max
        self._log = log
        self._seen: dict[Backlogged, tuple[int, int]] = {}

    async def watch(self, connections: Iterable[Backlogged]) -> None:
        while True:
            await trio.sleep(LOOK_S)
            self.look(connections)

    def look(self, connections: Iterable[Backlogged]) -> None:
        unsent = {each: each.unsent for each in connections if each.unsent}
        total, seen = sum(unsent.values()), self._seen
        self._seen = {each: (each.sent, size) for each, size in unsent.items()}
        if total <= self._bytes_max:
            return
        stuck = [each for each in unsent if seen.get(each) == self._seen[each]]
        others = unsent if total > 2 * self._bytes_max else ()
        for each in [*_by_size(stuck, unsent), *_by_size(others, unsent)]:
            if total <= self._bytes_max:
                return
            if each in self._seen:
                del self._seen[each]
                total -= unsent[each]
                host = each.peer.rpartition(":")[0]
                self._log.grumble("client_does_not_read", host, peer=each.peer, unsent_bytes=unsent[each])
                each.cut("it does not read, and so do others: what waits for all of them is too much")


def _by_size(connections: Iterable[Backlogged], unsent: dict[Backlogged, int]) -> list[Backlogged]:
    return sorted(connections, key=lambda each: -unsent[each])
