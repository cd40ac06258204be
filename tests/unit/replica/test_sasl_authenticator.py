"""The authentication of one connection, with the time as an argument."""

from __future__ import annotations

from typing import Any

from replica.core.errors import ErrorCode
from replica.runtime.authentication.sasl_authenticator import SaslAuthenticator, SaslSettings, sasl_security
from replica.runtime.requests import ApiKey, Request
from replica.wire.schemas.cluster_schemas import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from zab.core.failed_logins import FailedLogins, FailedLoginSettings

HOST = "10.0.0.1"
NOW = 5_000
GOOD, BAD = b"\0alice\0secret", b"\0alice\0wrong"


def authenticator(lifetime_ms: int = 0, failures: FailedLogins | None = None) -> SaslAuthenticator:
    settings = SaslSettings(users={"alice": "secret"}, lifetime_ms=lifetime_ms)
    return sasl_security(settings, lambda mechanism, name: None, b"", failures).authenticator(HOST)


def request(api: ApiKey, version: int, body: object) -> Request[Any]:
    return Request(api, version, 7, "client", body)


def log_in(made: SaslAuthenticator, token: bytes, now: int = NOW) -> SaslAuthenticateResponse | None:
    made.answer(request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")), now)
    response = made.answer(request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token)), now)
    assert response is None or isinstance(response, SaslAuthenticateResponse)
    return response


def test_session_expires_its_lifetime_after_each_login() -> None:
    made = authenticator(lifetime_ms=60_000)
    for now in (NOW, NOW + 50_000):
        response = log_in(made, GOOD, now)
        assert response is not None
        assert response.session_lifetime_ms == 60_000
        assert (made.done, made.principal, made.expires_at) == (True, "User:alice", now + 60_000)


def test_session_without_a_lifetime_never_expires() -> None:
    made = authenticator()
    log_in(made, GOOD)
    assert (made.done, made.expires_at, made.pause_ms) == (True, float("inf"), 0)


def test_failed_logins_of_an_address_are_paused_and_then_not_checked() -> None:
    failures = FailedLogins(FailedLoginSettings(pause_ms=100, waiting_max=2))
    pauses = []
    for _ in range(2):
        made = authenticator(failures=failures)
        response = log_in(made, BAD)
        assert response is not None
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        pauses.append(made.pause_ms)
    assert pauses == [100, 200]
    unchecked = authenticator(failures=failures)
    assert log_in(unchecked, GOOD) is None
    assert (unchecked.done, unchecked.pause_ms) == (False, 0)
    assert "too many logins from 10.0.0.1" in (unchecked.failure or "")
    assert log_in(authenticator(failures=failures), GOOD, NOW + 100) is not None


def test_failed_raw_token_has_no_response_and_a_pause() -> None:
    made = authenticator()
    made.answer(request(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest(mechanism="PLAIN")), NOW)
    assert made.expects_raw_token
    assert made.answer_raw_token(BAD, NOW) == b""
    assert made.pause_ms == 100
    assert made.failure is not None
