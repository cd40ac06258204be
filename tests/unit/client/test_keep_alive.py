"""When a client pings, and when it gives up a silent server. All times are those of the test."""

from __future__ import annotations

import pytest

from zab.client.connection_failures import ConnectionOver
from zab.client.keep_alive import KeepAlive


def silent_connection() -> KeepAlive:
    """A connection of a session with a timeout of 9 s, from 100 s on, whose first ping is sent at 103 s."""
    alive = KeepAlive(9_000, 100.0)
    assert alive.next_at == 103.0
    assert not alive.must_ping(102.9)
    assert alive.must_ping(103.0)
    alive.sent_at = 103.0
    return alive


def test_silent_server_is_given_up_a_third_after_a_ping() -> None:
    alive = silent_connection()
    assert (alive.unanswered_at, alive.next_at) == (103.0, 106.0)
    assert not alive.must_ping(106.0)
    assert alive.next_at == pytest.approx(106.3)
    with pytest.raises(ConnectionOver, match=r"nothing was received for 6\.4 s"):
        alive.must_ping(106.4)


def test_answered_ping_is_followed_by_the_next() -> None:
    alive = silent_connection()
    alive.received(103.5)
    assert (alive.unanswered_at, alive.next_at) == (None, 106.0)
    assert alive.must_ping(106.0)


@pytest.mark.parametrize("sends", [False, True])
def test_activity_of_one_side_alone_does_not_postpone_the_ping(sends: bool) -> None:
    alive = KeepAlive(9_000, 100.0)
    if sends:
        alive.sent_at = 102.0
    else:
        alive.received(102.0)
    assert alive.must_ping(alive.next_at)
    assert alive.unanswered_at == 103.0


def test_activity_of_both_sides_postpones_the_ping() -> None:
    alive = KeepAlive(9_000, 100.0)
    alive.sent_at = 101.0
    alive.received(102.0)
    assert alive.next_at == 104.0


def test_suspended_client_reads_the_reply_before_it_gives_up() -> None:
    alive = silent_connection()
    assert not alive.must_ping(500.0)
    alive.received(500.1)
    assert alive.must_ping(alive.next_at)


def test_client_that_was_suspended_before_its_ping_waits_for_the_reply() -> None:
    alive = KeepAlive(9_000, 100.0)
    assert alive.must_ping(500.0)
    assert alive.next_at == 503.0
