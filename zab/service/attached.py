"""The clients of a server, as the server uses them, and the counts of their traffic."""

from __future__ import annotations

from typing import Protocol

from zab.store.server_watches import Watcher


class Attached(Protocol):
    """A client with a session at this server: a connection, or a session in this process."""

    @property
    def session(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def read_only(self) -> bool:
        """True if the client reads from a server without a leader, and may only read."""
        ...

    def was_active(self) -> bool:
        """Return whether the client has sent something since the last call. A session in this process returns True."""

    def ended(self, why: str) -> None:
        """Disconnect the client, for the reason `why`. A session in this process continues if the ensemble has it."""


class Connected(Watcher, Protocol):
    """A client's connection, as status pages and periodic checks of the server use it."""

    peer: str
    session: int
    timeout_ms: int
    read_only: bool
    received: int
    sent: int
    established_ms: int
    """The wall-clock time at which the connection began."""

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
    """The periods in which a connection had unanswered requests: from the first one taken until all were answered."""

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
        """Return minimum, mean and maximum; zeros before the first period."""
        if not self.count:
            return 0, 0.0, 0
        return int(self._min * 1000), self.sum / self.count * 1000, int(self._max * 1000)


class Traffic:
    """The traffic of closed connections: see `Counts.gone`."""

    received = 0
    """The number of requests received."""
    sent = 0
    """The number of replies and events sent."""
