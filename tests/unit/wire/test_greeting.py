from __future__ import annotations

import pytest
from attrs import evolve

from zab.core.zxid import ServerId
from zab.wire.greeting import VERSION, Hello, Purpose, Unwelcome, Welcome, WrongPeer, accept, admit

HELLO = Hello(VERSION, "zab", ServerId(2), "learner", "localhost", 3888)


def test_a_member_is_admitted() -> None:
    assert admit(HELLO, ServerId(1), "zab", Purpose.LEARNER) == HELLO


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (evolve(HELLO, ensemble="other"), "it belongs to the ensemble 'other', this server to 'zab'"),
        (evolve(HELLO, purpose="election"), "it connects for 'election', and this port is for 'learner'"),
        (evolve(HELLO, purpose="tea"), "it connects for 'tea'"),
        (evolve(HELLO, server=ServerId(1)), "it claims to be server 1, which is this server"),
        (Welcome(VERSION, ServerId(2)), "its first message is not a hello"),
        (None, "its first message is not a hello"),
    ],
)
def test_stranger_receives_the_reason(greeting: object, says: str) -> None:
    with pytest.raises(WrongPeer, match=says):
        admit(greeting, ServerId(1), "zab", Purpose.LEARNER)


def test_a_welcome_is_accepted() -> None:
    accept(Welcome(VERSION, ServerId(1)), ServerId(1))


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (Unwelcome("go away"), "it refused this server: go away"),
        (Welcome(VERSION, ServerId(3)), "server 3 answers at the address of server 1"),
        (HELLO, "it did not answer the greeting with a welcome"),
    ],
)
def test_wrong_reply_is_reported(greeting: object, says: str) -> None:
    with pytest.raises(WrongPeer, match=says):
        accept(greeting, ServerId(1))
