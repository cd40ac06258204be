"""One election link: which server dials, how long it pauses, and which vote it sends."""

from __future__ import annotations

from math import inf

from zab.core.zxid import ServerId
from zab.service.election_link import SETTLED_S, DialPeer, ElectionLink, WaitUntil
from zab.service.limits import Limits

LIMITS = Limits(redial_ms_min=1_000, redial_ms_max=4_000)
HERE = [("host", 3888)]
DIAL = DialPeer(("host", 3888))


def larger() -> ElectionLink:
    return ElectionLink(ServerId(2), ServerId(1), LIMITS)


def smaller() -> ElectionLink:
    return ElectionLink(ServerId(1), ServerId(2), LIMITS)


def test_link_without_anything_to_send_needs_no_connection() -> None:
    link = larger()
    assert link.step(HERE, 0) == WaitUntil(inf)
    link.send(b"vote")
    assert link.step(HERE, 0) == DIAL


def test_failures_double_the_pause_up_to_a_limit_and_a_success_resets_it() -> None:
    link, now, pauses = larger(), 0.0, []
    link.send(b"vote")
    for _ in range(4):
        assert link.step(HERE, now) == DIAL
        link.failed("refused", HERE, now)
        pause = link.step(HERE, now)
        assert isinstance(pause, WaitUntil)
        pauses.append(pause.until - now)
        now = pause.until
    assert pauses == [1, 2, 4, 4]
    assert link.why == "refused"
    link.opened(now)
    link.closed(now)
    assert link.why == ""
    link.send(b"vote")
    assert link.step(HERE, now) == DIAL, "the dialler connects again at once"
    link.failed("refused", HERE, now)
    assert link.step(HERE, now) == WaitUntil(now + 1)


def test_known_addresses_take_turns_and_the_introduced_one_is_the_last() -> None:
    link = larger()
    link.introduced_address = ("there", 1)
    link.send(b"vote")
    dialled = []
    for attempt in range(3):
        step = link.step(HERE, attempt * 10)
        assert isinstance(step, DialPeer)
        dialled.append(step.address)
        link.failed("refused", HERE, attempt * 10)
    assert dialled == [("host", 3888), ("there", 1), ("host", 3888)]


def test_only_the_newest_vote_is_sent_and_a_new_connection_repeats_it() -> None:
    link = larger()
    link.send(b"old")
    link.send(b"new")
    link.opened(0)
    assert [link.take(), link.take()] == [b"new", None]
    link.closed(1)
    assert link.step(HERE, 1) == DIAL
    link.opened(2)
    assert link.take() == b"new"


def test_discarded_vote_is_not_repeated() -> None:
    link = larger()
    link.send(b"vote")
    link.opened(0)
    link.take()
    link.discard()
    link.closed(1)
    assert link.step(HERE, 1) == WaitUntil(inf)


def test_vote_that_is_discarded_before_it_was_sent_goes_out_on_an_open_connection_only() -> None:
    link = larger()
    link.opened(0)
    link.send(b"vote")
    link.discard()
    assert link.take() == b"vote", "the peer may need it to decide"
    link.send(b"another")
    link.discard()
    link.closed(1)
    assert link.step(HERE, 1) == WaitUntil(inf)
    link.send(b"a third")
    link.discard()
    assert link.step(HERE, 2) == WaitUntil(inf)


def test_server_with_the_smaller_id_knocks_and_leaves_the_peer_time_to_connect() -> None:
    link = smaller()
    assert not link.is_dialler
    link.send(b"vote")
    assert link.step(HERE, 0) == DIAL
    link.has_knocked(HERE, 0)
    assert link.step(HERE, 0) == WaitUntil(1)
    assert link.step(HERE, 1) == DIAL, "it knocks again"
    link.opened(1)
    link.take()
    link.closed(5)
    assert link.step(HERE, 5) == WaitUntil(6)


def test_knock_is_answered_at_once_even_in_a_pause() -> None:
    link = larger()
    link.send(b"vote")
    link.step(HERE, 0)
    link.failed("refused", HERE, 0)
    assert link.knocked(0)
    assert link.step(HERE, 0) == DIAL


def test_knock_that_crossed_a_new_connection_is_answered_by_it() -> None:
    link = larger()
    link.opened(10)
    assert not link.knocked(10 + SETTLED_S / 2)
    assert link.knocked(10 + SETTLED_S)
    link.closed(11)
    assert link.step(HERE, 11) == DIAL


def test_stranger_that_cannot_be_dialled_is_forgotten_after_a_pause() -> None:
    link = larger()
    link.send(b"vote")
    assert link.step([], 0) == WaitUntil(1), "no address of it is known"
    assert link.step([], 1) is None


def test_link_is_silent_since_the_last_message_on_its_connection() -> None:
    link = larger()
    assert link.silent_ms(100) == 0
    link.opened(100)
    assert link.silent_ms(103) == 3_000
    link.received(104)
    assert link.silent_ms(105) == 1_000
    link.closed(106)
    assert link.silent_ms(200) == 0
