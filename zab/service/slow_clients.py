"""The choice of clients to cut when all clients together hold too much memory.

Unread replies and unfinished requests of clients wait in memory. Each client has a bound of its own; this module
enforces the bound of all clients together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from attrs import frozen

CHECK_MS: Final = 250
REASON: Final = (
    "the buffers of all clients together exceed unsent_total_bytes_max, and this client makes no progress or has a "
    "large buffer"
)


class SlowClientLog(Protocol):
    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None: ...


class Buffering(Protocol):
    """The buffers of a client's connection."""

    @property
    def unsent(self) -> int:
        """The number of bytes of replies and events that wait to be sent to the client."""

    @property
    def unfinished(self) -> int:
        """The number of received bytes of an incomplete request."""

    @property
    def sent(self) -> int: ...
    @property
    def peer(self) -> str: ...
    def cut(self, why: str) -> None: ...


T = TypeVar("T", bound=Buffering)


@frozen
class SlowClient(Generic[T]):
    """A client to cut, and the bytes that it held."""

    connection: T
    unsent: int
    unfinished: int

    @property
    def event(self) -> str:
        """The name of the log event."""
        return "client_does_not_read" if self.unsent >= self.unfinished else "client_does_not_finish"


class SlowClients(Generic[T]):
    """Cuts clients while all clients together hold more than `bytes_max`.

    It cuts clients without progress since the last check, the largest first. If the total exceeds twice `bytes_max`, it
    continues with the other clients, again the largest first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._seen: dict[T, tuple[int, int]] = {}
        """client -> the number of replies and events sent to it, and of bytes that it held, at the last check"""

    def cut(self, connections: Iterable[T], log: SlowClientLog) -> None:
        """Cut the clients that `check` returns, and log each, at a limited rate."""
        for slow in self.check(connections):
            peer = slow.connection.peer
            log.warn_rate_limited(
                slow.event,
                peer.rpartition(":")[0],
                peer=peer,
                unsent_bytes=slow.unsent,
                unfinished_bytes=slow.unfinished,
            )
            slow.connection.cut(REASON)

    def check(self, connections: Iterable[T]) -> list[SlowClient[T]]:
        """Return the clients to cut, no more than are needed to come down to the bound."""
        held = {each: size for each in connections if (size := each.unsent + each.unfinished)}
        total, seen = sum(held.values()), self._seen
        self._seen = {each: (each.sent, size) for each, size in held.items()}
        if total <= self._bytes_max:
            return []
        stuck = [each for each in held if seen.get(each) == self._seen[each]]
        others = held if total > 2 * self._bytes_max else ()
        slow: list[SlowClient[T]] = []
        for each in [*_by_size(stuck, held), *_by_size(others, held)]:
            if total <= self._bytes_max:
                break
            if each in self._seen:
                del self._seen[each]
                total -= held[each]
                slow.append(SlowClient(each, each.unsent, each.unfinished))
        return slow


def _by_size(connections: Iterable[T], held: dict[T, int]) -> list[T]:
    return sorted(connections, key=lambda each: -held[each])
