"""Identities that one client proves."""

from __future__ import annotations

import pytest

from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.service import authentication
from zab.service.authentication import CREDENTIALS_BYTES_MAX, ClientAuthentication, Verdict
from zab.store.acl import digest_id
from zab.store.error_codes import ErrorCode
from zab.wire.sasl import DigestClient


def test_one_identity_more_than_allowed_is_refused() -> None:
    caller = ClientAuthentication(ClientPortSettings(identities_max=3), "10.0.0.1")
    assert caller.authenticate("digest", b"joe:1") is Verdict.PROVED
    assert caller.authenticate("digest", b"ann:1") is Verdict.PROVED
    assert caller.authenticate("digest", b"joe:1") is Verdict.PROVED, "the same one again is not one more"
    before = caller.identities
    assert caller.authenticate("digest", b"bob:1") is Verdict.REFUSED
    assert caller.identities == before
    assert "ClientPortSettings.identities_max allows 3" in caller.why


def test_sasl_login_beyond_the_number_of_identities_is_no_wrong_guess() -> None:
    settings = ClientPortSettings(identities_max=1, security=SecuritySettings(sasl_users={"bob": "x"}))
    caller = ClientAuthentication(settings, "10.0.0.1", random_bytes=bytes)
    for password, guessed_wrong in (("y", True), ("x", False)):
        challenge, _ = caller.sasl(b"")
        assert challenge is not None
        reply = DigestClient("bob", password, b"nonce").step(challenge)
        assert caller.sasl(reply) == (None, int(ErrorCode.AUTH_FAILED))
        assert caller.guessed_wrong == guessed_wrong
    assert "ClientPortSettings.identities_max allows 1" in caller.why


def test_reason_of_a_refusal_is_not_that_of_an_earlier_guess() -> None:
    caller = ClientAuthentication(ClientPortSettings(super_digest=digest_id(b"super:secret")), "10.0.0.1")
    assert caller.authenticate("digest", b"super:wrong") is Verdict.PROVED
    assert caller.why == "a wrong password for the super user"
    assert caller.authenticate("unknown", b"x") is Verdict.REFUSED
    assert caller.why == "the credentials of scheme 'unknown' prove no identity"


def test_credentials_beyond_the_bound_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def digest_id(credentials: bytes, algorithm: str) -> str:
        read.append(credentials)
        return "joe:x"

    monkeypatch.setattr(authentication, "digest_id", digest_id)
    caller = ClientAuthentication(ClientPortSettings(), "10.0.0.1")
    most = CREDENTIALS_BYTES_MAX - len("digest")
    assert caller.authenticate("digest", b"j" * most) is Verdict.PROVED
    assert caller.authenticate("digest", b"j" * (most + 1)) is Verdict.REFUSED
    assert caller.authenticate("x" * CREDENTIALS_BYTES_MAX, b"1") is Verdict.REFUSED
    assert [len(each) for each in read] == [most]
    assert len(caller.why) < 200
