"""SCRAM: the example of the RFC, both sides against each other, and malformed messages."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core.configuration.config_keys import ConfigError
from kraft_controller.core.configuration.scram import (
    ITERATIONS_MIN,
    Credential,
    Mechanism,
    asked_for,
    credentials_in,
    of_password,
    read_credential,
)
from kraft_controller.runtime.admin.entity_configs import Entity
from replica.core.security.sasl_exchange import Refused
from replica.core.security.sasl_plain import TOKEN_BYTES_MAX, PlainExchange
from replica.core.security.sasl_scram import ScramExchange, ScramProof, escaped, unescaped
from replica.runtime.authentication.user_credentials import UserCredentials
from replica.runtime.logs import Log

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
MINE, YOURS = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = of_password(Mechanism.SHA_256, "pencil", SALT)
FIRST = f"n,,n=user,r={MINE}".encode()
SECRET = b"of the cluster"
USERS = {"user": PENCIL}


def asked(users: Mapping[str, Credential] = USERS, mechanism: Mechanism = Mechanism.SHA_256) -> ScramExchange:
    return ScramExchange(mechanism, users.get, YOURS, SECRET)


def final_of(first: bytes, password: str = "pencil") -> bytes:
    proof = ScramProof(Mechanism.SHA_256, "user", password, MINE)
    proof.first()
    said = proof.step(first)
    assert said is not None
    return said


def test_example_of_rfc_7677() -> None:
    server, client = asked(), ScramProof(Mechanism.SHA_256, "user", "pencil", MINE)
    assert client.first() == FIRST
    first = server.step(FIRST)
    assert first == f"r={MINE}{YOURS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = client.step(first)
    assert final == f"c=biws,r={MINE}{YOURS},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    last = server.step(final)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (server.done, server.name) == (True, "user")
    assert client.step(last) is None
    assert client.done


@given(
    name=st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable()),
    password=st.text(min_size=1, max_size=8),
    mechanism=st.sampled_from(Mechanism),
)
def test_right_password_authenticates(name: str, password: str, mechanism: Mechanism) -> None:
    assert unescaped(escaped(name)) == name
    credential = of_password(mechanism, password, SALT)
    server, client = asked({name: credential}, mechanism), ScramProof(mechanism, name, password, MINE)
    final = client.step(server.step(client.first()))
    assert final is not None
    assert client.step(server.step(final)) is None
    assert (server.done, server.name) == (True, name)


@pytest.mark.parametrize(
    ("users", "password"), [({"user": PENCIL}, "pen"), ({"another": PENCIL}, "pencil"), ({"another": PENCIL}, "")]
)
def test_wrong_password_is_refused_after_proof(users: dict[str, Credential], password: str) -> None:
    server = asked(users)
    first = server.step(FIRST)
    with pytest.raises(Refused, match="wrong name or password for user 'user'"):
        server.step(final_of(first, password))
    assert not server.done


def test_unknown_names_have_constant_distinct_salts() -> None:
    def shown(name: str) -> bytes:
        return asked().step(f"n,,n={name},r={MINE}".encode()).split(b",")[1]

    assert shown("bob") == shown("bob") != shown("eve")
    assert len(base64.b64decode(shown("bob")[2:])) == 20


def test_unknown_names_have_the_usual_number_of_iterations() -> None:
    users = UserCredentials(Log(1), lambda: None)
    mechanism = Mechanism.SHA_256
    assert users.usual_iterations(mechanism) == ITERATIONS_MIN
    for name, iterations in (("ann", 8_192), ("bob", 8_192), ("eve", 4_096)):
        users._on_config(Entity.of("users", name), {mechanism.value: evolve(PENCIL, iterations=iterations).text})
    usual = users.usual_iterations(mechanism)
    server = ScramExchange(mechanism, lambda _: None, YOURS, SECRET, usual)
    assert server.step(FIRST).endswith(b",i=8192")
    for name in ("ann", "bob"):
        users._on_config(Entity.of("users", name), {})
    assert users.usual_iterations(mechanism) == 4_096


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,n=user",
        b"n,,n=us=er,r=x",
        b"n,,n=,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=root,n=user,r=x",
        b"n,,m=more,n=user,r=x",
        b"n,,n=user,r=x,tokenauth=true",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=" + b"x" * 9_000,
    ],
)
def test_malformed_first_message_is_refused(first: bytes) -> None:
    server = asked()
    with pytest.raises(Refused):
        server.step(first)
    assert not server.done


@pytest.mark.parametrize("first", [b"n,a=user,n=user,r=x", b"y,,n=user,r=x", b"n,,n=user,r=x,ext=1"])
def test_unusual_first_message_is_accepted(first: bytes) -> None:
    assert asked().step(first).startswith(b"r=x" + YOURS.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"c=biws", b"c=eSws"), (b"c=biws", b"c=!!"), (YOURS.encode(), b"other"), (b",p=", b",p=AAAA"), (b",p=", b",q=")],
)
def test_inconsistent_last_message_is_refused(old: bytes, new: bytes) -> None:
    server = asked()
    final = final_of(server.step(FIRST))
    assert old in final
    with pytest.raises(Refused):
        server.step(final.replace(old, new))
    assert not server.done


def test_replayed_proof_is_refused() -> None:
    server = asked()
    final = final_of(server.step(FIRST))
    server.step(final)
    again = ScramExchange(Mechanism.SHA_256, {"user": PENCIL}.get, "another", SECRET)
    again.step(FIRST)
    with pytest.raises(Refused, match="the nonce"):
        again.step(final)
    with pytest.raises(Refused, match="end of the exchange"):
        server.step(final)


def test_old_librdkafka_repeats_its_nonce() -> None:
    """As sent by its version 2.0.2, which current distributions have: `r=` client's nonce twice, then the server's."""
    server, mechanism = asked(), Mechanism.SHA_256
    first = server.step(FIRST).decode()
    bare = f"c=biws,r={MINE}{MINE}{YOURS}"
    over = f"{FIRST.decode().removeprefix('n,,')},{first},{bare}".encode()
    key = mechanism.hmac(mechanism.salted(b"pencil", SALT, 4096), b"Client Key")
    proof = bytes(a ^ b for a, b in zip(key, mechanism.hmac(mechanism.h(key), over), strict=True))
    server.step(f"{bare},p={base64.b64encode(proof).decode()}".encode())
    assert (server.done, server.name) == (True, "user")


@pytest.mark.parametrize(
    "first",
    [
        f"r={YOURS},s=QUFB,i=4096",
        f"r={MINE},s=QUFB,i=4096",
        f"r={MINE}x,s=QUFB,i=1000",
        f"r={MINE}x,s=QUFB,i=9000000000",
        f"r={MINE}x,s=A,i=4096",
        f"r={MINE}x,i=4096",
        "e=other-error",
    ],
)
def test_client_refuses_malformed_server_message(first: str) -> None:
    client = ScramProof(Mechanism.SHA_256, "user", "pencil", MINE)
    client.first()
    with pytest.raises(Refused):
        client.step(first.encode())


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=invalid-proof", b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="])
def test_client_refuses_server_without_password(last: bytes) -> None:
    client = ScramProof(Mechanism.SHA_256, "user", "pencil", MINE)
    client.first()
    client.step(asked().step(FIRST))
    with pytest.raises(Refused):
        client.step(last)
    assert not client.done


# -- what is kept ----------------------------------------------------------------------------------------


def test_credential_round_trips_in_kafkas_format() -> None:
    assert PENCIL.text.startswith(
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    )
    assert PENCIL.text.endswith(",iterations=4096")
    assert read_credential(Mechanism.SHA_256, PENCIL.text) == PENCIL
    assert "pencil" not in repr(PENCIL)
    assert "stored_key" not in repr(PENCIL)


def test_passwords_are_normalized() -> None:
    def kept(text: str) -> Credential:
        return asked_for(Mechanism.SHA_256, text, lambda count: SALT)

    assert kept("[password=pencil]") == kept("password=pencil") == kept(PENCIL.text) == PENCIL
    assert kept("[iterations=8192,password=a=b,c]") == of_password(Mechanism.SHA_256, "a=b,c", SALT, 8192)
    for wrong in ("[iterations=4095,password=x]", "[iterations=20000,password=x]", "[password=]", "pencil", ""):
        with pytest.raises(ConfigError):
            kept(wrong)


@pytest.mark.parametrize(
    "text",
    [
        PENCIL.text.replace("4096", "4095"),
        PENCIL.text.replace("4096", "many"),
        PENCIL.text.replace("salt=", "sand="),
        PENCIL.text.replace("stored_key=W", "stored_key=!"),
        "salt=QUFB,stored_key=QUFB,server_key=QUFB,iterations=4096",
    ],
)
def test_malformed_credential_is_ignored(text: str) -> None:
    kept, wrong = credentials_in({"SCRAM-SHA-256": text, "producer_byte_rate": "1"})
    assert kept == {}
    assert len(wrong) == 1
    assert "WG5d8oPm" not in wrong[0]


def test_too_long_plain_token_is_refused() -> None:
    ann = "a" * (TOKEN_BYTES_MAX - 3)
    exchange = PlainExchange({ann: b"x"})
    assert exchange.step(f"\0{ann}\0x".encode()) == b""
    with pytest.raises(Refused, match="bytes"):
        PlainExchange({ann + "a": b"x"}).step(f"\0{ann}a\0x".encode())
