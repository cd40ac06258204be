"""Throttles: connections by a token bucket, requests by their number, large requests by their bytes.

All of these throttles are off by default. They are for servers that should refuse some clients rather than serve all
slowly. The bounds of `ClientPortSettings` apply in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.core.failed_logins import FailedLogins, FailedLoginSettings
from zab.core.settings_checks import check_settings
from zab.service.attached import Latency
from zab.wire.client.client_frames import Request

REQUEST_HEAD_BYTES: Final = 8


@frozen
class ThrottleSettings:
    """The names follow ZooKeeper's: `connection_tokens` is `connection_throttle_tokens` there.

    connection_tokens         tokens in the full bucket; if too few are left, a new connection is closed. 0: no limit
    connection_fill_ms        interval at which tokens come back
    connection_fill_count     tokens that come back in one interval
    connection_freeze_ms      least time between two changes of the probability with which a connection is dropped at
                              random, even if there are tokens (BLUE); -1: no connection is dropped at random
    connection_drop_increase  added to the probability when the bucket is empty
    connection_drop_decrease  subtracted from it when the bucket is full enough
    connection_decrease_ratio the bucket is full enough if at most this share of its tokens is missing
    connection_weight_enabled whether a connection costs as many tokens as its kind of session weighs; if not, one token
    connection_global_session_weight, _renew_, _local_
                              tokens for a new session, for one that is attached again, for a local one
    request_max_requests      unanswered requests of all clients; further ones wait. 0: only `requests_total_max`
                              bounds them
    request_stall_ms          interval at which waiting requests are tried again
    request_stale_latency_check
                              cut a client if its request has waited for longer than its session's timeout
    op_wait_ms                a request that has waited for this time is answered with THROTTLEDOP, unless it closes the
                              session, logs in or sets watches again; 0: never
    large_request_threshold   a request of more bytes is large; -1: none is
    large_request_max_bytes   bytes of the large requests of all clients; each counts until its client has no unanswered
                              request. A client whose request exceeds this bound is cut
    """

    connection_tokens: int = 0
    connection_fill_ms: int = 1
    connection_fill_count: int = 1
    connection_freeze_ms: int = -1
    connection_drop_increase: float = 0.02
    connection_drop_decrease: float = 0.002
    connection_decrease_ratio: float = 0.0
    connection_weight_enabled: bool = False
    connection_global_session_weight: int = 3
    connection_renew_session_weight: int = 2
    connection_local_session_weight: int = 1
    request_max_requests: int = 0
    request_stall_ms: int = 100
    request_stale_latency_check: bool = False
    op_wait_ms: int = 0
    large_request_threshold: int = -1
    large_request_max_bytes: int = 100 << 20

    def __attrs_post_init__(self) -> None:
        off = {"connection_tokens": 0, "connection_freeze_ms": -1, "large_request_threshold": -1}
        check_settings(self, {**off, "request_max_requests": 0, "op_wait_ms": 0})


class ConnectionThrottle:
    """A bucket of tokens, of which each new connection takes one or more. Time and randomness are arguments."""

    def __init__(self, settings: ThrottleSettings, chance: Callable[[], float], now_ms: int) -> None:
        self._settings = settings
        self._chance = chance
        self._tokens = settings.connection_tokens
        self._filled_at = self._frozen_at = now_ms
        self._drop = 0.0

    def weight(self, *, renews: bool, local: bool) -> int:
        """Return the cost of a connection in tokens, by the kind of session that its client gets."""
        settings = self._settings
        if not settings.connection_weight_enabled:
            return 1
        if renews:
            return settings.connection_renew_session_weight
        return settings.connection_local_session_weight if local else settings.connection_global_session_weight

    def take(self, wanted: int, now_ms: int) -> bool:
        """Take tokens. Return False, and take none, if the connection is to be closed."""
        settings = self._settings
        if not settings.connection_tokens:
            return True
        passed = now_ms - self._filled_at
        if passed > settings.connection_fill_ms:
            come_back = passed * settings.connection_fill_count // settings.connection_fill_ms
            self._tokens = min(self._tokens + come_back, settings.connection_tokens)
            self._filled_at = now_ms
        if settings.connection_freeze_ms != -1 and self._unlucky(now_ms):
            return False
        if self._tokens < wanted:
            return False
        self._tokens -= wanted
        return True

    def _unlucky(self, now_ms: int) -> bool:
        settings = self._settings
        if now_ms - self._frozen_at > settings.connection_freeze_ms:
            missing = settings.connection_tokens - self._tokens
            if missing == settings.connection_tokens:
                self._drop = min(self._drop + settings.connection_drop_increase, 1.0)
            elif missing <= round(settings.connection_tokens * settings.connection_decrease_ratio):
                self._drop = max(self._drop - settings.connection_drop_decrease, 0.0)
            self._frozen_at = now_ms
        return self._chance() < self._drop


class RequestTotals:
    """The requests of all connections of a server together. Each connection keeps its part up to date."""

    def __init__(self) -> None:
        self.open_requests = 0
        """The number of unanswered requests."""
        self.large_bytes = 0
        """The number of bytes of large requests. Each counts until its connection has no unanswered request."""
        self.latency = Latency()
        """The latencies since the start, or since the last reset of the statistics."""


class RequestThrottle:
    """Admits the requests of one connection while the totals of all connections allow it.

    It exists only if `wanted` returns True. While requests wait, no more is read from their client.
    """

    def __init__(self, settings: ThrottleSettings, totals: RequestTotals) -> None:
        self._settings = settings
        self._totals = totals
        self._since_ms: int | None = None
        """The time since which requests of this connection wait; None if none waits."""
        self._large_bytes = 0
        """This connection's part of `totals.large_bytes`."""
        self._stalled = False
        """The last result of `stalls`."""

    @classmethod
    def wanted(cls, settings: ThrottleSettings) -> bool:
        """Return whether these settings limit any request."""
        return settings.request_max_requests > 0 or settings.large_request_threshold >= 0

    @property
    def closed(self) -> bool:
        most = self._settings.request_max_requests
        return most > 0 and self._totals.open_requests >= most

    def stalls(self) -> bool:
        """Return whether held requests must wait for `request_stall_ms` before the next attempt.

        If the throttle is open, they need not wait. While it is closed, every other call returns True, so that a wait
        precedes each attempt.
        """
        self._stalled = self.closed and not self._stalled
        return self._stalled

    def admit(self, wanted: int, now_ms: int) -> tuple[int, bool]:
        """Return the number of requests that may proceed now, and whether requests have waited for `op_wait_ms`."""
        most = self._settings.request_max_requests
        count = min(wanted, max(most - self._totals.open_requests, 0)) if most else wanted
        late = self._settings.op_wait_ms > 0 and self._waited_ms(now_ms) >= self._settings.op_wait_ms
        if late:
            count = wanted
        if count == wanted:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        return count, late

    def is_stale(self, timeout_ms: int, now_ms: int) -> bool:
        """Return whether to cut the client, because requests have waited for longer than the session's timeout."""
        return self._settings.request_stale_latency_check and self._waited_ms(now_ms) > timeout_ms

    def _waited_ms(self, now_ms: int) -> int:
        return 0 if self._since_ms is None else now_ms - self._since_ms

    # -- large requests ----------------------------------------------------------------------------

    def weigh(self, requests: Sequence[Request]) -> None:
        """Count the bytes of large requests among these. Raise `WireError` if the server has no room for them."""
        threshold = self._settings.large_request_threshold
        if threshold < 0:
            return
        sizes = (len(body) + REQUEST_HEAD_BYTES for _, _, body in requests)
        size = sum(each for each in sizes if each > threshold)
        if not size:
            return
        if self._totals.large_bytes + size > self._settings.large_request_max_bytes:
            raise WireError(
                f"{self._totals.large_bytes} bytes of large requests are open, and {size} more arrived: at most "
                f"{self._settings.large_request_max_bytes} are allowed (largeRequestMaxBytes)"
            )
        self._large_bytes += size
        self._totals.large_bytes += size

    def drained(self) -> None:
        """Release this connection's large bytes, because none of its requests is open any more."""
        self._totals.large_bytes -= self._large_bytes
        self._large_bytes = 0


class Throttles:
    """The limits of a server for new connections and for failed logins."""

    def __init__(
        self, settings: ThrottleSettings, failed_logins: FailedLoginSettings, chance: Callable[[], float], now_ms: int
    ) -> None:
        self.connections = ConnectionThrottle(settings, chance, now_ms)
        self.logins = FailedLogins(failed_logins)
