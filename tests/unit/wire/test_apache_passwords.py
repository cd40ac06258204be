"""Passwords of sessions, against those that servers of ZooKeeper 3.9.5 gave to clients."""

from __future__ import annotations

import pytest

from zab.wire.apache.session_passwords import session_password


@pytest.mark.parametrize(
    ("session", "password"),
    [
        (72062536223424512, b"H:L@5\xb2\xc6\xd3fJ\x92\x96\x06\x9a\xcb*"),
        (72062558466801665, b"\xe4,/\x9b*KT\xf2\x8c\xd8\x06\x0b\xb7,C\xd3"),
    ],
)
def test_password_is_that_of_zookeeper(session: int, password: bytes) -> None:
    assert session_password(session) == password


def test_id_may_be_negative() -> None:
    assert len(session_password(-(1 << 63))) == 16
