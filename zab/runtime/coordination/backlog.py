"""What clients do not read, or do not finish, waits in memory. For each there is a bound; here is that of all."""

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
    def unfinished(self) -> int:
        """Bytes that have arrived of a request that is not whole."""

    @property
    def sent(self) -> int: ...
    def cut(self, why: str) -> None: ...


class Backlog:
    """Who has neither taken nor added anything since the last look goes first; in need, whoever holds most."""

    def __init__(self, bytes_max: int, log: Log) -> None:
        self._bytes_max = bytes_max
        self._log = log
        self._seen: dict[Backlogged, tuple[int, int]] = {}

    async def watch(self, connections: Iterable[Backlogged]) -> None:
        while True:
            await trio.sleep(LOOK_S)
            self.look(connections)

    def look(self, connections: Iterable[Backlogged]) -> None:
        waits = {each: size for each in connections if (size := each.unsent + each.unfinished)}
        total, seen = sum(waits.values()), self._seen
        self._seen = {each: (each.sent, size) for each, size in waits.items()}
        if total <= self._bytes_max:
            return
        stuck = [each for each in waits if seen.get(each) == self._seen[each]]
        others = waits if total > 2 * self._bytes_max else ()
        for each in [*_by_size(stuck, waits), *_by_size(others, waits)]:
            if total <= self._bytes_max:
                return
            if each in self._seen:
                del self._seen[each]
                total -= waits[each]
                host, unsent, unfinished = each.peer.rpartition(":")[0], each.unsent, each.unfinished
                event = "client_does_not_read" if unsent >= unfinished else "client_does_not_finish"
                self._log.grumble(event, host, peer=each.peer, unsent_bytes=unsent, unfinished_bytes=unfinished)
                each.cut("it does not go on, and so do others: what waits for all of them is too much")


def _by_size(connections: Iterable[Backlogged], waits: dict[Backlogged, int]) -> list[Backlogged]:
    return sorted(connections, key=lambda each: -waits[each])
