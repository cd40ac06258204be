"""In front of one connection's requests, on a server that limits those of all together.

What may not go on yet waits at the door, and meanwhile nothing more is read from this client. Most servers have no such
limit, and then there is no gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from zab.core.errors import WireError
from zab.runtime.coordination.throttle import ThrottleSettings
from zab.runtime.driver import now_ms
from zab.wire.client.frames import Request


class Counts(Protocol):
    """Of all connections of a server."""

    open_requests: int
    large_bytes: int


class Gate:
    def __init__(self, settings: ThrottleSettings, counts: Counts) -> None:
        self._settings = settings
        self._counts = counts
        self._since_ms: int | None = None
        self._large_bytes = 0

    @classmethod
    def wanted(cls, settings: ThrottleSettings) -> bool:
        return settings.request_max_requests > 0 or settings.large_request_threshold >= 0

    @property
    def closed(self) -> bool:
        most = self._settings.request_max_requests
        return most > 0 and self._counts.open_requests >= most

    def admit(self, wanted: int) -> tuple[int, bool]:
        """How many may go on now, and whether these have waited for so long that they are only answered."""
        settings, most = self._settings, self._settings.request_max_requests
        count = min(wanted, max(most - self._counts.open_requests, 0)) if most else wanted
        late = settings.op_wait_ms > 0 and self._waited_ms >= settings.op_wait_ms
        if late:
            count = wanted
        if count == wanted:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms()
        return count, late

    def is_stale(self, timeout_ms: int) -> bool:
        return self._settings.request_stale_latency_check and self._waited_ms > timeout_ms

    @property
    def _waited_ms(self) -> int:
        return 0 if self._since_ms is None else now_ms() - self._since_ms

    # -- large ones --------------------------------------------------------------------------------

    def weigh(self, requests: Sequence[Request]) -> None:
        """Raises `WireError` where they are too much for this server."""
        threshold = self._settings.large_request_threshold
        if threshold < 0:
            return
        size = sum(len(body) + 8 for _, _, body in requests if len(body) + 8 > threshold)
        if not size:
            return
        if self._counts.large_bytes + size > self._settings.large_request_max_bytes:
            raise WireError(f"{self._counts.large_bytes} bytes of large requests are open, and {size} more came")
        self._large_bytes += size
        self._counts.large_bytes += size

    def drained(self) -> None:
        """None of this connection's requests is open any more."""
        self._counts.large_bytes -= self._large_bytes
        self._large_bytes = 0
