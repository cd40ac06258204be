"""Not too many at once: connections by a bucket of tokens, requests by a number, large requests by their bytes.

All of it is off by default. The bounds that are always there stand in `DoorSettings`; these are for servers that should
rather refuse some clients than serve all of them slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from zab.core.checks import check_settings

PROBABILITIES: Final = ("connection_drop_increase", "connection_drop_decrease", "connection_decrease_ratio")


@frozen
class ThrottleSettings:
    """The names are those of ZooKeeper's settings, `connection_throttle_tokens` and so on, without the `throttle`.

    connection_tokens         how many connections may come at once; 0: any number. Above it they are closed
    connection_fill_ms        every so many milliseconds
    connection_fill_count     so many tokens come back
    connection_freeze_ms      between two changes of the probability of being closed by chance, before the bucket
                              is empty (BLUE); -1: none is
    connection_drop_increase  of that probability, when the bucket is empty
    connection_drop_decrease  of the same, when it is full enough
    connection_decrease_ratio what part of the bucket may be missing then
    connection_weight_enabled whether connections cost as many tokens as their sessions cost work: else one each
    connection_global_session_weight, _renew_, _local_
                              a session that all know, one that comes back, one that only this server knows
    request_max_requests      requests of all clients that are not answered yet; 0: see `requests_total_max`.
                              Above it all others wait
    request_stall_ms          and look again after this
    request_stale_latency_check
                              whether a client is cut whose request waited for longer than its session's timeout
    op_wait_ms                a request that waited for so long is answered with THROTTLEDOP; 0: never
    large_request_threshold   a request of more bytes is large; -1: none is
    large_request_max_bytes   of all large ones that are not answered yet; whoever sends one more is cut
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


class Bucket:
    """Of tokens, one or more for each connection. Time and chance are arguments."""

    def __init__(self, settings: ThrottleSettings, chance: Callable[[], float], now_ms: int) -> None:
        self._settings = settings
        self._chance = chance
        self._tokens = settings.connection_tokens
        self._filled_at = self._frozen_at = now_ms
        self._drop = 0.0

    def weight(self, *, renews: bool, local: bool) -> int:
        settings = self._settings
        if not settings.connection_weight_enabled:
            return 1
        if renews:
            return settings.connection_renew_session_weight
        return settings.connection_local_session_weight if local else settings.connection_global_session_weight

    def take(self, wanted: int, now_ms: int) -> bool:
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
