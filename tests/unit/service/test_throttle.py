"""The throttles of connections and of requests."""

from __future__ import annotations

import pytest

from zab.core.errors import ConfigError, WireError
from zab.service.throttle import ConnectionThrottle, RequestThrottle, RequestTotals, ThrottleSettings
from zab.wire.client.client_frames import Request


def bucket(chance: float = 0.5, **options: int | float | bool) -> ConnectionThrottle:
    return ConnectionThrottle(ThrottleSettings(**options), lambda: chance, 0)  # type: ignore[arg-type]


def test_default_settings_admit_every_connection() -> None:
    it = bucket()
    assert all(it.take(3, 0) for _ in range(10_000))


def test_bucket_runs_dry_and_fills_again() -> None:
    it = bucket(connection_tokens=3, connection_fill_ms=100, connection_fill_count=2)
    assert [it.take(1, 0) for _ in range(4)] == [True, True, True, False]
    assert not it.take(1, 100), "more than that has to pass"
    assert [it.take(1, 101) for _ in range(3)] == [True, True, False]
    assert [it.take(1, 99_999) for _ in range(4)] == [True, True, True, False], "no more than it holds"


def test_weights_of_kinds_of_sessions() -> None:
    it = bucket(connection_tokens=6, connection_weight_enabled=True)
    weights = [
        it.weight(renews=False, local=False),
        it.weight(renews=True, local=False),
        it.weight(renews=False, local=True),
    ]
    assert weights == [3, 2, 1]
    assert [it.take(weight, 0) for weight in weights] == [True, True, True]
    assert not it.take(1, 0)
    assert bucket().weight(renews=True, local=True) == 1


def test_connections_are_dropped_by_chance_before_the_bucket_is_empty() -> None:
    options = {"connection_tokens": 2, "connection_freeze_ms": 10, "connection_drop_increase": 0.5}
    it = bucket(0.6, **options, connection_fill_ms=10_000)
    assert [it.take(1, 0) for _ in range(3)] == [True, True, False]
    for now in (11, 22):
        assert not it.take(1, now)  # empty: twice the probability rises, to 1
    it = bucket(0.6, **options, connection_drop_decrease=1.0, connection_fill_ms=1)
    assert [it.take(2, 0), it.take(1, 11)] == [True, True], "refilled, so the probability stays 0"


def test_settings_are_checked() -> None:
    for wrong in ({"connection_tokens": -1}, {"connection_drop_increase": 1}, {"op_wait_ms": -1}):
        with pytest.raises(ConfigError):
            ThrottleSettings(**wrong)  # type: ignore[arg-type]


# -- requests ----------------------------------------------------------------------------------------------


def throttle(totals: RequestTotals, **options: int | bool) -> RequestThrottle:
    settings = ThrottleSettings(**options)  # type: ignore[arg-type]
    assert RequestThrottle.wanted(settings)
    return RequestThrottle(settings, totals)


def test_no_request_throttle_without_a_limit() -> None:
    assert not RequestThrottle.wanted(ThrottleSettings(op_wait_ms=5))


def test_admits_as_many_requests_as_there_is_room_for() -> None:
    totals = RequestTotals()
    it = throttle(totals, request_max_requests=10)
    totals.open_requests = 7
    assert (it.admit(5, 0), it.closed) == ((3, False), False)
    totals.open_requests = 10
    assert (it.admit(2, 0), it.closed) == ((0, False), True)
    totals.open_requests = 12
    assert it.admit(2, 0) == (0, False)


def test_requests_that_waited_too_long_are_late() -> None:
    totals = RequestTotals()
    totals.open_requests = 1
    it = throttle(totals, request_max_requests=1, op_wait_ms=50, request_stale_latency_check=True)
    assert it.admit(2, 0) == (0, False)
    assert it.admit(2, 49) == (0, False)
    assert not it.is_stale(50, 50)
    assert it.is_stale(49, 50)
    assert it.admit(2, 50) == (2, True)
    assert it.admit(2, 50) == (0, False), "from here on it waits anew"


def large(*sizes: int) -> list[Request]:
    return [(1, 1, bytes(size - 8)) for size in sizes]


def test_large_requests_are_bounded_by_their_bytes() -> None:
    totals = RequestTotals()
    one, other = (throttle(totals, large_request_threshold=100, large_request_max_bytes=500) for _ in range(2))
    one.weigh(large(100, 50, 300))
    assert totals.large_bytes == 300, "what is not above the threshold is not large"
    with pytest.raises(WireError):
        other.weigh(large(201))
    other.weigh(large(200))
    one.drained()
    assert totals.large_bytes == 200
    other.drained()
    assert totals.large_bytes == 0
