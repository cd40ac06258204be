"""Failed logins: an address guesses passwords at a bounded rate, regardless of its number of connections."""

from __future__ import annotations

import pytest

from zab.core.failed_logins import FailedLogins, FailedLoginSettings, network_of

HOST = "192.0.2.7"


def test_pause_doubles_with_each_failure_up_to_the_longest() -> None:
    logins, now, pauses = FailedLogins(FailedLoginSettings(forget_ms=1_000_000_000)), 0.0, []
    for _ in range(8):
        pauses.append(logins.failed(HOST, now))
        now += pauses[-1]
    assert [round(pause) for pause in pauses] == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_time_halves_the_pause_again() -> None:
    logins = FailedLogins()
    for _ in range(100):
        logins.failed(HOST, 0)
    assert logins.failed(HOST, 60_000) == pytest.approx(100, rel=0.01)


def test_guesses_of_one_address_are_bounded_however_they_come() -> None:
    """An attacker that never waits for a report and opens a new connection each millisecond."""
    logins, guesses = FailedLogins(), 0
    for now in range(60_000):
        if logins.may_try(HOST, now):
            logins.failed(HOST, now)
            guesses += 1
    assert 60 < guesses < 160  # 8 places of 5 s each are 96 in a minute, and the first ones are shorter


def test_other_addresses_are_not_held_up() -> None:
    logins = FailedLogins()
    for _ in range(8):
        logins.failed(HOST, 0)
    assert not logins.may_try(HOST, 50)
    assert logins.may_try("192.0.2.8", 50)
    assert logins.failed("192.0.2.8", 50) == 100


def test_places_are_free_again_after_the_longest_pause() -> None:
    logins = FailedLogins()
    for _ in range(1_000):
        logins.failed(HOST, 0)
    assert not logins.may_try(HOST, 4_000)
    assert logins.may_try(HOST, 5_000)


def test_an_ipv6_network_counts_as_one_address() -> None:
    assert network_of("2001:db8:1:2:aaaa::1") == network_of("2001:db8:1:2::") != network_of("2001:db8:1:3::1")
    assert network_of("::ffff:192.0.2.7") == network_of("192.0.2.7")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("no address") == "no address"


def test_the_table_is_bounded_and_forgets_the_address_that_has_not_failed_for_longest() -> None:
    logins = FailedLogins(FailedLoginSettings(addresses_max=100, waiting_max=1))
    logins.failed(HOST, 0)
    for number in range(99):
        logins.failed(f"198.51.100.{number}", number)
    logins.failed(HOST, 100)
    for number in range(99):
        logins.failed(f"203.0.113.{number}", 100)
    assert len(logins) == 100
    assert not logins.may_try(HOST, 101)
    assert logins.may_try("198.51.100.98", 101)


def test_no_pause_means_no_bound() -> None:
    logins = FailedLogins(FailedLoginSettings(pause_ms=0))
    assert [logins.failed(HOST, 0) for _ in range(100)] == [0.0] * 100
    assert logins.may_try(HOST, 0)
    assert len(logins) == 0


def test_a_first_pause_longer_than_the_longest_counts_for_all() -> None:
    logins = FailedLogins(FailedLoginSettings(pause_ms=20_000))
    assert [logins.failed(HOST, now) for now in (0, 20_000)] == [20_000, 20_000]
