"""DIGEST-MD5: both sides against each other, against published values, and against wrong proofs."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zab.core.errors import WireError
from zab.wire.sasl import (
    CHALLENGE_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    DigestClient,
    DigestServer,
    SaslError,
    parse_directives,
)

USERS = {"bob": "bobs secret", "jürgen": "größe", "名": "秘密", 'q"uo\\te': "p", "none": ""}
NONCE = b"OA6MG9tEQGm2hh"
CNONCE = b"OA6MHXh6VqTrRk"


def server(nonce: bytes = NONCE) -> DigestServer:
    return DigestServer(nonce, USERS.get)


def exchange(user: str, password: str, server: DigestServer) -> DigestClient:
    client = DigestClient(user, password, CNONCE)
    assert client.step(server.step(client.step(server.step(b"")))) == b""
    return client


@pytest.mark.parametrize("user", USERS)
def test_right_password_authenticates_both_sides(user: str) -> None:
    there = server()
    assert exchange(user, USERS[user], there).complete
    assert (there.complete, there.user) == (True, user)


def test_the_example_of_rfc_2831() -> None:
    """Section 4 of it: chris, secret, imap/elwood.innosoft.com."""
    there = DigestServer(NONCE, {"chris": "secret"}.get, "elwood.innosoft.com", "imap", "elwood.innosoft.com")
    here = DigestClient("chris", "secret", CNONCE, "imap", "elwood.innosoft.com")
    challenge = there.step(b"")
    response = here.step(challenge)
    assert parse_directives(response)["response"] == [b"d388dad90d4bbd760a152321f2143af7"]
    proof = there.step(response)
    assert proof == b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
    assert here.step(proof) == b""


def test_the_challenge_is_as_javas() -> None:
    assert server().step(b"") == b'realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess'


def test_a_client_that_always_hashes_utf_8_is_believed_too() -> None:
    """pure-sasl, kazoo's library, sends no charset and always hashes UTF-8."""

    def md5(data: bytes) -> bytes:
        return hashlib.md5(data).digest()

    there = server()
    there.step(b"")
    user, password = "jürgen".encode(), "größe".encode()
    a1 = md5(md5(user + b":zk-sasl-md5:" + password) + b":" + NONCE + b":c").hex()
    a2 = md5(b"AUTHENTICATE:zookeeper/zk-sasl-md5").hex()
    response = md5(f"{a1}:{NONCE.decode()}:00000001:c:auth:{a2}".encode()).hex()
    token = b'username="%b",realm="zk-sasl-md5",nonce="%b",cnonce="c",nc=00000001,qop=auth,' % (user, NONCE)
    assert there.step(token + b'digest-uri="zookeeper/zk-sasl-md5",response=' + response.encode())
    assert there.user == "jürgen"


# -- who lies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("user", "password", "why"), [
    ("bob", "bobs secre", "a wrong password for 'bob'"),
    ("eve", "", "user 'eve' is not known"),
    ("", "", "user '' is not known"),
])  # fmt: skip
def test_wrong_password_is_refused(user: str, password: str, why: str) -> None:
    there = server()
    response = DigestClient(user, password, CNONCE).step(there.step(b""))
    with pytest.raises(SaslError, match=why):
        there.step(response)
    assert there.user is None


def changed(old: bytes, new: bytes) -> bytes:
    response = DigestClient("bob", USERS["bob"], CNONCE).step(server().step(b""))
    assert response.count(old) == 1
    return response.replace(old, new)


@pytest.mark.parametrize(("old", "new", "why"), [
    (b'nonce="OA6MG9tEQGm2hh"', b'nonce="OA6MG9tEQGm2hi"', "not the nonce"),
    (b"nc=00000001", b"nc=00000002", "used only once"),
    (b"nc=00000001,", b"", "has no `nc` directives"),
    (b"qop=auth", b"qop=auth-int", "only qop=auth"),
    (b'realm="zk-sasl-md5"', b'realm="elsewhere"', "not this server's"),
    (b"zookeeper/zk-sasl-md5", b"zookeeper/other", "the response is for"),
    (b'username="bob"', b'username="bob",username="eve"', "has 2 `username` directives"),
    (b'cnonce="OA6MHXh6VqTrRk"', b'cnonce=""', "lacks a cnonce"),
    (b"response=", b"response=0", "a hash of 32 hexadecimal digits"),
    (b"qop=auth", b"qop=auth,authzid=eve", "a wrong password"),
    (b"qop=auth", b"qop", "no name=value"),
    (b'username="bob"', b'username="bob', "no name=value"),
    (b"qop=auth", b"qop=auth,x=" + b"y" * RESPONSE_BYTES_MAX, "at most 4096"),
])  # fmt: skip
def test_a_response_that_lies(old: bytes, new: bytes, why: str) -> None:
    there = server()
    there.step(b"")
    with pytest.raises(SaslError, match=why):
        there.step(changed(old, new))
    with pytest.raises(SaslError, match="over"):  # the nonce is used up, and a right answer comes too late
        there.step(changed(b"qop=auth", b"qop=auth"))


def test_response_from_another_exchange_is_refused() -> None:
    there = server(b"not the nonce")
    there.step(b"")
    with pytest.raises(SaslError, match="a replay"):
        there.step(changed(b"qop=auth", b"qop=auth"))


def test_steps_out_of_order() -> None:
    with pytest.raises(SaslError, match="must be empty in DIGEST-MD5"):
        server().step(b"x")
    there = server()
    exchange("bob", USERS["bob"], there)
    with pytest.raises(SaslError, match="over"):
        there.step(b"")


@pytest.mark.parametrize(("challenge", "why"), [
    (b"", "has no `nonce` directives"),
    (b'nonce="a",nonce="b",algorithm=md5-sess', "has 2 `nonce` directives"),
    (b'nonce="",algorithm=md5-sess', "lacks a nonce"),
    (b'nonce="a"', "has no `algorithm` directives"),
    (b'nonce="a",algorithm=md5', "the algorithm md5-sess"),
    (b'nonce="a",algorithm=md5-sess,qop="auth-conf,auth-int"', "does not offer"),
    (b"n" * (CHALLENGE_BYTES_MAX + 1), "at most 2048"),
])  # fmt: skip
def test_a_challenge_that_makes_no_sense(challenge: bytes, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        DigestClient("bob", "x", CNONCE).step(challenge)


@pytest.mark.parametrize("proof", [b"", b"rspauth=" + b"0" * 32, b"rspauth=0,rspauth=1", b"nonce=a"])
def test_a_server_that_cannot_prove_itself_is_not_believed(proof: bytes) -> None:
    client = DigestClient("bob", USERS["bob"], CNONCE)
    client.step(server().step(b""))
    with pytest.raises(SaslError):
        client.step(proof)
    assert not client.complete


def test_directives_as_others_write_them() -> None:
    token = b' a = "x\\"y,\\\\" ,, B=z,c="",\r\n d=\t1,'
    assert parse_directives(token) == {"a": [b'x"y,\\'], "b": [b"z"], "c": [b""], "d": [b"1"]}


@given(st.one_of(st.binary(max_size=200), st.text('ab=",\\ \t', max_size=40).map(str.encode)))
@example(b"nonce=n,algorithm=md5-sess")
def test_noise_raises_only_wire_errors(noise: bytes) -> None:
    there = server()
    there.step(b"")
    with pytest.raises(WireError):
        there.step(noise)
    client = DigestClient("bob", "x", CNONCE)
    try:
        client.step(noise)  # it may be a valid challenge by chance
    except WireError:
        return
    assert not client.complete, "the server has proved nothing yet"
