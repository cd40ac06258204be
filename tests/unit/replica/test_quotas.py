"""Rates of clients: whose counts, what it lets through, and for how long somebody waits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.client_quotas import DEFAULT, ClientQuotaLimits, ClientQuotaManager, QuotaClient, QuotaType
from replica.runtime.handlers.client_throttling import apply_quotas, user_and_client

ANN = QuotaClient("ann", "app")
LEVELS = [
    ("ann", "app"), ("ann", DEFAULT), ("ann", None), (DEFAULT, "app"), (DEFAULT, DEFAULT), (DEFAULT, None),
    (None, "app"), (None, DEFAULT),
]  # fmt: skip


def quotas(rate: float, user: str | None = None, client: str | None = DEFAULT, **limits: int) -> ClientQuotaManager:
    made = ClientQuotaManager(ClientQuotaLimits(**{"wait_ms_max": 1 << 60, **limits}))
    made.update(user, client, {QuotaType.PRODUCE: rate})
    return made


def test_who_takes_more_than_his_share_waits_until_it_is_made_up_for() -> None:
    made = quotas(1_000)
    assert made.record(QuotaType.PRODUCE, ANN, 1_000, 0) == 0  # a second's worth at once
    assert made.record(QuotaType.PRODUCE, ANN, 500, 0) == 501
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 400) == 101
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 500) == 0
    assert made.record(QuotaType.FETCH, ANN, 1 << 30, 500) == 0  # nothing is said of that


def test_nobody_waits_for_longer_than_the_longest_and_the_rest_is_not_forgotten() -> None:
    made = quotas(1_000, wait_ms_max=2_000)
    assert made.record(QuotaType.PRODUCE, ANN, 10_000, 0) == 2_000
    assert made.record(QuotaType.PRODUCE, ANN, 0, 2_000) == 2_000
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 9_500) == 0


def test_another_rate_counts_at_once_and_none_frees() -> None:
    made = quotas(10)
    assert made.record(QuotaType.PRODUCE, ANN, 1_000, 0) > 90_000
    made.update(None, DEFAULT, {QuotaType.PRODUCE: 1_000})
    assert made.throttle_ms(QuotaType.PRODUCE, ANN, 0) == 0
    made.update(None, DEFAULT, {})
    assert made.record(QuotaType.PRODUCE, ANN, 1 << 40, 0) == 0


def test_a_users_rate_is_for_all_his_clients_together_and_the_rate_of_all_for_each_by_himself() -> None:
    made = quotas(1_000, "ann", None)
    made.record(QuotaType.PRODUCE, ANN, 2_000, 0)
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("ann", "other"), 0) == 1_001
    made = quotas(1_000, None, DEFAULT)
    made.record(QuotaType.PRODUCE, ANN, 2_000, 0)
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("ann", "other"), 0) == 0
    assert made.throttle_ms(QuotaType.PRODUCE, QuotaClient("bob", "app"), 0) == 1_001


def test_only_so_many_are_remembered_those_who_took_something_last() -> None:
    made = quotas(1, sharers_max=2)
    for name in ("a", "b", "a", "c"):
        made.record(QuotaType.PRODUCE, QuotaClient("", name), 100, 0)
    waiting = [name for name in ("a", "b", "c") if made.throttle_ms(QuotaType.PRODUCE, QuotaClient("", name), 0)]
    assert waiting == ["a", "c"]


def test_who_fetches_is_handed_no_more_at_once_than_he_may_take_without_waiting() -> None:
    made = ClientQuotaManager()
    assert made.request_bytes_max(QuotaType.FETCH, ANN) is None
    made.update(None, "app", {QuotaType.FETCH: 2_000})
    assert made.request_bytes_max(QuotaType.FETCH, ANN) == 2_000
    made.update(None, "app", {QuotaType.FETCH: 0.001})
    assert made.request_bytes_max(QuotaType.FETCH, ANN) == 1


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.sets(st.sampled_from(LEVELS)))
def test_the_first_level_at_which_something_is_said_counts(said: set[tuple[str | None, str | None]]) -> None:
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
def test_whoever_waits_as_he_is_told_never_has_more_than_his_rate_but_for_the_last_he_took(
    rate: float, takes: list[tuple[int, int]]
) -> None:
    made, now, before = quotas(rate), 0, 0
    for pause, size in takes:
        now += pause
        assert before <= rate * (now + 1_000) / 1_000 + 1e-3
        wait = made.record(QuotaType.PRODUCE, ANN, size, now)
        before += size
        assert made.throttle_ms(QuotaType.PRODUCE, ANN, now + wait) == 0
        if wait > 1:
            assert made.throttle_ms(QuotaType.PRODUCE, ANN, now + wait - 2) > 0  # and not for longer than need be
        now += wait


@settings(max_examples=50, derandomize=True, deadline=None)
@given(rate=st.integers(1, 1_000), pauses=st.lists(st.integers(0, 1_000), max_size=20))
def test_whoever_stays_below_his_rate_never_waits(rate: int, pauses: list[int]) -> None:
    made, now = quotas(rate), 0
    for pause in pauses:
        now += pause
        assert made.record(QuotaType.PRODUCE, ANN, rate * pause // 1_000, now) == 0


def test_what_is_configured_as_the_store_has_it() -> None:
    assert user_and_client(Entity.of("clients", "my app")) == (None, "my app")
    assert user_and_client(Entity.of("users")) == (DEFAULT, None)
    assert user_and_client(Entity.of("users", "a/b", DEFAULT)) == ("a/b", DEFAULT)
    made = ClientQuotaManager()
    said = {"producer_byte_rate": "many", "consumer_byte_rate": "7", "SCRAM-SHA-256": "salt=x"}
    [wrong] = apply_quotas(made, Entity.of("users", "ann"), said)
    assert "producer_byte_rate=many" in wrong
    assert (made.rate(QuotaType.PRODUCE, ANN), made.rate(QuotaType.FETCH, ANN)) == (None, 7.0)
