"""Client quotas: the quota that applies, the bytes that it allows, and the throttle time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.core.configuration import config_keys
from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.network.client_quotas import (
    DEFAULT,
    ClientQuotaLimits,
    ClientQuotaManager,
    Name,
    QuotaClient,
    QuotaType,
)
from replica.runtime.handlers.client_throttling import apply_quotas, user_and_client

ANN = QuotaClient("ann", "app")
LEVELS = [
    ("ann", "app"), ("ann", DEFAULT), ("ann", None), (DEFAULT, "app"), (DEFAULT, DEFAULT), (DEFAULT, None),
    (None, "app"), (None, DEFAULT),
]  # fmt: skip


def quotas(rate: float, user: Name = None, client: Name = DEFAULT, **limits: int) -> ClientQuotaManager:
    made = ClientQuotaManager(ClientQuotaLimits(**{"wait_ms_max": 1 << 60, **limits}))
    made.update(user, client, {QuotaType.PRODUCE: rate})
    return made


def test_client_above_its_rate_waits_until_rate_is_met() -> None:
    made = quotas(1_000)
    assert made.record(QuotaType.PRODUCE, ANN, 1_000, 0) == 0  # the bytes of one second at once
    assert made.record(QuotaType.PRODUCE, ANN, 500, 0) == 501
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 400) == 101
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 500) == 0
    assert made.record(QuotaType.FETCH, ANN, 1 << 30, 500) == 0  # no quota for fetches


def test_wait_is_bounded_and_rest_is_carried_over() -> None:
    made = quotas(1_000, wait_ms_max=2_000)
    assert made.record(QuotaType.PRODUCE, ANN, 10_000, 0) == 2_000
    assert made.record(QuotaType.PRODUCE, ANN, 0, 2_000) == 2_000
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 9_500) == 0


def test_changed_rate_applies_at_once_and_removed_rate_frees() -> None:
    made = quotas(10)
    assert made.record(QuotaType.PRODUCE, ANN, 1_000, 0) > 90_000
    made.update(None, DEFAULT, {QuotaType.PRODUCE: 1_000})
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 0) == 0
    made.update(None, DEFAULT, {})
    assert made.record(QuotaType.PRODUCE, ANN, 1 << 40, 0) == 0


def test_user_quota_is_shared_by_clients_and_default_is_not() -> None:
    made = quotas(1_000, "ann", None)
    made.record(QuotaType.PRODUCE, ANN, 2_000, 0)
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("ann", "other"), 0) == 1_001
    made = quotas(1_000, None, DEFAULT)
    made.record(QuotaType.PRODUCE, ANN, 2_000, 0)
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("ann", "other"), 0) == 0
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("bob", "app"), 0) == 1_001


def test_user_named_as_the_default_has_a_quota_of_its_own() -> None:
    made = quotas(1_000, "<default>", None)
    assert made.rate(QuotaType.PRODUCE, QuotaClient("<default>", "app")) == 1_000
    assert made.rate(QuotaType.PRODUCE, ANN) is None


def test_tracked_clients_are_bounded_to_most_recent() -> None:
    made = quotas(1, sharers_max=2)
    for name in ("a", "b", "a", "c"):
        made.record(QuotaType.PRODUCE, QuotaClient("", name), 100, 0)
    waiting = [name for name in ("a", "b", "c") if made.throttle_ms(QuotaType.PRODUCE, QuotaClient("", name), 0)]
    assert waiting == ["a", "c"]


def test_fetch_returns_at_most_the_bytes_allowed_without_waiting() -> None:
    made = ClientQuotaManager()
    assert made.request_bytes_max(QuotaType.FETCH, ANN) is None
    made.update(None, "app", {QuotaType.FETCH: 2_000})
    assert made.request_bytes_max(QuotaType.FETCH, ANN) == 2_000
    made.update(None, "app", {QuotaType.FETCH: 0.001})
    assert made.request_bytes_max(QuotaType.FETCH, ANN) == 1


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.sets(st.sampled_from(LEVELS)))
def test_most_specific_quota_applies(said: set[tuple[Name, Name]]) -> None:
    made = ClientQuotaManager()
    for user, client in said:
        made.update(user, client, {QuotaType.FETCH: 1.0 + LEVELS.index((user, client))})
        made.update("bob", client, {QuotaType.FETCH: 99.0})
    expected = next((1.0 + place for place, level in enumerate(LEVELS) if level in said), None)
    assert made.rate(QuotaType.FETCH, ANN) == expected


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    rate=st.floats(0.5, 1e6),
    takes=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 100_000)), min_size=1, max_size=20),
)
def test_client_that_waits_exceeds_its_rate_by_last_request_only(rate: float, takes: list[tuple[int, int]]) -> None:
    made, now, before = quotas(rate), 0, 0
    for pause, size in takes:
        now += pause
        assert before <= rate * (now + 1_000) / 1_000 + 1e-3
        wait = made.record(QuotaType.PRODUCE, ANN, size, now)
        before += size
        assert made.throttle_ms(QuotaType.PRODUCE, ANN, now + wait) == 0
        if wait > 1:
            assert made.throttle_ms(QuotaType.PRODUCE, ANN, now + wait - 2) > 0  # and not longer than necessary
        now += wait


@settings(max_examples=50, derandomize=True, deadline=None)
@given(rate=st.integers(1, 1_000), pauses=st.lists(st.integers(0, 1_000), max_size=20))
def test_client_below_its_rate_never_waits(rate: int, pauses: list[int]) -> None:
    made, now = quotas(rate), 0
    for pause in pauses:
        now += pause
        assert made.record(QuotaType.PRODUCE, ANN, rate * pause // 1_000, now) == 0


def test_quotas_are_read_from_store_configs() -> None:
    assert user_and_client(Entity.of("clients", "my app")) == (None, "my app")
    assert user_and_client(Entity.of("users")) == (DEFAULT, None)
    assert user_and_client(Entity.of("users", "a/b", config_keys.DEFAULT)) == ("a/b", DEFAULT)
    assert user_and_client(Entity("users/%3Cdefault%3E")) == ("<default>", None)
    made = ClientQuotaManager()
    said = {"producer_byte_rate": "many", "consumer_byte_rate": "7", "SCRAM-SHA-256": "salt=x"}
    [wrong] = apply_quotas(made, Entity.of("users", "ann"), said)
    assert "producer_byte_rate=many" in wrong
    assert (made.rate(QuotaType.PRODUCE, ANN), made.rate(QuotaType.FETCH, ANN)) == (None, 7.0)
