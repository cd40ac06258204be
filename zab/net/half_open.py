"""Half-open connections, whose other end still has to send something, and the choice of those that a full port drops.

If a full port refused new connections, a few addresses that connect and send nothing could block it. So a full port
drops the oldest half-open connection of the address with the most of them, and admits the new one. A flood from a few
addresses then harms only these addresses.
"""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType

import trio


class HalfOpenWait:
    """A `with` block in which a connection is half-open, until `shown` is called or the block ends.

    If the port drops the connection, the block is cancelled and ends without an exception: see `dropped`.
    """

    def __init__(self, half_open: HalfOpen, host: str) -> None:
        self.host = host
        self.scope = trio.CancelScope()
        self._half_open = half_open

    def __enter__(self) -> HalfOpenWait:
        self._half_open.add(self)
        self.scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.shown()
        return self.scope.__exit__(kind, error, traceback)

    def shown(self) -> None:
        """End the half-open state: the connection may no longer be dropped."""
        self._half_open.forget(self)

    @property
    def dropped(self) -> bool:
        """True if the block has ended because the connection was dropped."""
        return self.scope.cancelled_caught


class HalfOpen:
    """The half-open connections of one pool. The address with the most of them is found without a search."""

    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[HalfOpenWait, None]] = {}
        """Connections by address, oldest first. The first of a `dict` is found slowly after deletions before it."""
        self._hosts: list[OrderedDict[str, None]] = [OrderedDict()]
        """At index n, the addresses with n connections each."""
        self._most = 0
        """The greatest number of connections of one address."""
        self._count = 0
        """The number of connections of all addresses."""

    def __len__(self) -> int:
        return self._count

    def entered(self, host: str) -> HalfOpenWait:
        return HalfOpenWait(self, host)

    def add(self, wait: HalfOpenWait) -> None:
        waits = self._of.setdefault(wait.host, OrderedDict())
        waits[wait] = None
        self._moved(wait.host, len(waits) - 1, len(waits))

    def forget(self, wait: HalfOpenWait) -> None:
        waits = self._of.get(wait.host)
        if waits and wait in waits:
            del waits[wait]
            self._moved(wait.host, len(waits) + 1, len(waits))
            if not waits:
                del self._of[wait.host]

    def make_room(self) -> HalfOpenWait | None:
        """Drop the oldest connection of the address with the most, and return it; None if there is none.

        Its task is cancelled, and closes it in the next pass of the event loop.
        """
        if not self._count:
            return None
        host = next(iter(self._hosts[self._most]))
        oldest = next(iter(self._of[host]))
        self.forget(oldest)
        oldest.scope.cancel()
        return oldest

    def _moved(self, host: str, before: int, now: int) -> None:
        self._count += now - before
        if before:
            del self._hosts[before][host]
        if now:
            if now == len(self._hosts):
                self._hosts.append(OrderedDict())
            self._hosts[now][host] = None
        if now > self._most or not self._hosts[self._most]:
            self._most = now
