"""SASL between servers of ZooKeeper: packets, and both ends of the exchange."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.wire.apache.quorum_auth import (
    FIRST_PACKET,
    AcceptorAuth,
    AuthPacket,
    AuthReader,
    AuthStatus,
    DiallerAuth,
    encode_auth,
)
from zab.wire.sasl import SaslError

USERS = {"zk": "secret"}


def exchange(user: str, password: str) -> tuple[DiallerAuth, AcceptorAuth]:
    dialler, acceptor = DiallerAuth(user, password, b"cnonce"), AcceptorAuth(USERS, b"nonce")
    packet: AuthPacket | None = FIRST_PACKET
    while packet is not None:
        packet = dialler.step(acceptor.step(packet))
    return dialler, acceptor


def test_both_ends_prove_that_they_know_the_password() -> None:
    dialler, acceptor = exchange("zk", "secret")
    assert dialler.complete
    assert acceptor.complete


@pytest.mark.parametrize(("user", "password"), [("zk", "wrong"), ("other", "secret"), ("", "")])
def test_acceptor_refuses_an_unproved_password(user: str, password: str) -> None:
    with pytest.raises(SaslError):
        exchange(user, password)


def test_exchange_is_that_of_zookeeper() -> None:
    """The names in the tokens, and the magic, are those of `QuorumAuth` of ZooKeeper."""
    assert encode_auth(FIRST_PACKET).hex() == "5f2435013501edcc" + "00000000" + "00000000"
    challenge = AcceptorAuth(USERS, b"nonce").step(FIRST_PACKET)
    assert challenge.status is AuthStatus.IN_PROGRESS
    assert b'realm="zk-quorum-sasl-md5"' in challenge.token
    response = DiallerAuth("zk", "secret", b"cnonce").step(challenge)
    assert response is not None
    assert b'digest-uri="zookeeper-quorum/zk-quorum-sasl-md5"' in response.token


@pytest.mark.parametrize(
    "packet",
    [
        AuthPacket(AuthStatus.ERROR, b""),
        AuthPacket(AuthStatus.SUCCESS, AcceptorAuth(USERS, b"nonce").step(FIRST_PACKET).token),
        AuthPacket(AuthStatus.IN_PROGRESS, b""),
    ],
)
def test_dialler_trusts_no_acceptor_without_proof(packet: AuthPacket) -> None:
    dialler = DiallerAuth("zk", "secret", b"cnonce")
    with pytest.raises(SaslError):
        dialler.step(packet)
    assert not dialler.complete


@given(st.sampled_from(AuthStatus), st.binary(max_size=200), st.lists(st.integers(0, 216)))
def test_packet_is_read_in_any_pieces_and_not_beyond_its_end(status: AuthStatus, token: bytes, cuts: list[int]) -> None:
    packet = AuthPacket(status, token)
    data = encode_auth(packet)
    reader, found = AuthReader(), None
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        assert found is None or start == end == len(data)
        assert found is not None or 0 < reader.missing_bytes <= len(data) - start
        found = found or reader.feed(data[start:end])
    assert found == packet


@pytest.mark.parametrize("data", [bytes(16), b"GET / HTTP/1.1\r\n", encode_auth(FIRST_PACKET)[:12] + b"\x7f" + bytes(3),
                                  encode_auth(FIRST_PACKET)[:8] + b"\0\0\0\7" + bytes(4)])  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        AuthReader().feed(data)
