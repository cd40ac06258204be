"""Who is attached to a server, as the server sees them, and what it counts of their traffic."""

from __future__ import annotations

from typing import Protocol

from zab.store.server_watches import Watcher


class Attached(Protocol):
    """Who has a session here."""

    @property
    def session(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def read_only(self) -> bool:
        """It knows that there is no leader, and wants to read all the same."""
        ...

    def heard_of(self) -> bool:
        """Whether it gave a sign of life since it was asked for the last time."""

    def ended(self, why: str) -> None:
        """The session is closed, has moved, or is better served elsewhere."""


class Connected(Watcher, Protocol):
    """A connection of a client, as it is looked at from outside."""

    peer: str
    session: int
    timeout_ms: int
    read_only: bool
    received: int
    sent: int
    established_ms: int
    """Wall clock."""

    @property
    def queued(self) -> int: ...
    @property
    def unsent(self) -> int: ...
    @property
    def unfinished(self) -> int: ...
    @property
    def response_bytes(self) -> int: ...
    def resume(self) -> None: ...
    def cut(self, why: str) -> None: ...


class Latency:
    """From the receiving of a batch of requests to the last of its replies."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = self._max = 0.0
        self._min = float("inf")

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum += seconds
        self._min = min(self._min, seconds)
        self._max = max(self._max, seconds)

    @property
    def milliseconds(self) -> tuple[int, float, int]:
        """Least, mean, most."""
        if not self.count:
            return 0, 0.0, 0
        return int(self._min * 1000), self.sum / self.count * 1000, int(self._max * 1000)


class Traffic:
    """Of connections that are closed."""

    received = 0
    sent = 0
