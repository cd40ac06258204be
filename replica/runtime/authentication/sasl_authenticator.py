"""SASL at a listener: the handshake, the exchange of tokens, the pause after a failure, and the session lifetime.

Times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from attrs import frozen

from kraft_controller.core.configuration.scram import ITERATIONS_MIN, Credential, Mechanism
from replica.core.errors import ErrorCode
from replica.core.security.sasl_exchange import Exchange, Refused
from replica.core.security.sasl_plain import PLAIN, PlainExchange
from replica.core.security.sasl_scram import ScramExchange
from replica.runtime.requests import ANONYMOUS, ApiKey, Request
from replica.wire.schemas.cluster_schemas import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from zab.core.failed_logins import FailedLogins

NONCE_BYTES: Final = 24
ROUNDS_MAX: Final = 10
SCRAM: Final[Mapping[str, Mechanism]] = {mechanism.value: mechanism for mechanism in Mechanism}
MECHANISMS: Final = (PLAIN, *SCRAM)
_LENGTH: Final = Struct(">i")

Begin = Callable[[], Exchange]
FindCredential = Callable[[Mechanism, str], Credential | None]


@frozen
class SaslSettings:
    """The SASL settings of one listener.

    mechanisms      enabled mechanisms, in the order of SaslHandshake responses
    users           passwords by name, for PLAIN
    lifetime_ms     `connections.max.reauth.ms`: time after which a client must re-authenticate; 0: never
    """

    mechanisms: tuple[str, ...] = (PLAIN,)
    users: Mapping[str, str] | None = None
    lifetime_ms: int = 0

    def __repr__(self) -> str:
        return f"SaslSettings({', '.join(self.mechanisms)})"


def sasl_security(
    settings: SaslSettings,
    find: FindCredential,
    secret: bytes,
    failures: FailedLogins | None = None,
    usual_iterations: Callable[[Mechanism], int] = lambda _: ITERATIONS_MIN,
) -> SaslListenerSecurity:
    """Return the authentication for a listener.

    find      returns the SCRAM credential of a user for a mechanism; None if there is none
    secret    see `ScramExchange`
    failures  failed logins by address, shared by all listeners
    usual_iterations  returns the number of iterations for unknown users
    """
    users = {name: password.encode() for name, password in (settings.users or {}).items()}

    def begin(name: str) -> Begin:
        if name == PLAIN:
            return lambda: PlainExchange(users)
        mechanism = SCRAM[name]
        return lambda: ScramExchange(
            mechanism, lambda user: find(mechanism, user), nonce(), secret, usual_iterations(mechanism)
        )

    return SaslListenerSecurity({name: begin(name) for name in settings.mechanisms}, settings.lifetime_ms, failures)


def nonce() -> str:
    return base64.b64encode(os.urandom(NONCE_BYTES)).decode()


class SaslListenerSecurity:
    """The authentication at a listener that requires SASL."""

    keys: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

    def __init__(
        self, mechanisms: Mapping[str, Begin], lifetime_ms: int = 0, failures: FailedLogins | None = None
    ) -> None:
        self._mechanisms = mechanisms
        """The functions that begin an exchange, by mechanism name."""
        self._lifetime_ms = lifetime_ms
        self._failures = FailedLogins() if failures is None else failures

    def authenticator(self, host: str) -> SaslAuthenticator:
        return SaslAuthenticator(self._mechanisms, self._lifetime_ms, self._failures, host)


class SaslAuthenticator:
    """The authentication of one connection, as `SaslServerAuthenticator` of Apache Kafka (KIP-43, KIP-152, KIP-368)."""

    def __init__(self, mechanisms: Mapping[str, Begin], lifetime_ms: int, failures: FailedLogins, host: str) -> None:
        self.started = False
        """True after the client has chosen a mechanism."""
        self.expects_raw_token = False
        """True if the next frame is a raw token instead of a request, after a SaslHandshake of version 0."""
        self.done = False
        """True if `principal` is authenticated; False during a re-authentication."""
        self.failure: str | None = None
        """The reason why authentication failed, or else None. A failure is final: it closes the connection."""
        self.pause_ms = 0.0
        """The pause in ms after a failed login, before the response, or before the connection is closed without one."""
        self.expires_at = math.inf
        """The time from which the client must re-authenticate before its next request."""
        self.principal = ANONYMOUS
        """The principal. It never changes after the first authentication."""
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self._failures = failures
        """The failed logins, shared by all connections. Repeated failures of an address cause longer and longer pauses.
        While too many of its pauses are in progress, its logins are refused unchecked."""
        self._host = host
        self._exchange: Exchange | None = None
        """The current exchange of tokens, from handshake to end; else None."""
        self._mechanism = ""
        """The chosen mechanism. A re-authentication must use the same one."""
        self._rounds = 0
        """The number of tokens in the current exchange."""

    def answer(self, request: Request[Any], now: int) -> SaslHandshakeResponse | SaslAuthenticateResponse | None:
        if request.api is ApiKey.SASL_HANDSHAKE:
            return self._handshake(request)
        if self._exchange is None:
            self.failure = "SaslAuthenticate without a SaslHandshake before it"
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=self.failure)
        if not self._may_try(now):
            return None
        answer = self._step(self._exchange, request.body.auth_bytes, now)
        if answer is not None:
            return SaslAuthenticateResponse(
                auth_bytes=answer, session_lifetime_ms=self._lifetime_ms if self.done else 0
            )
        # The text must not reveal whether the user name exists.
        text = "Authentication failed: invalid user name or password"
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)

    def _handshake(self, request: Request[SaslHandshakeRequest]) -> SaslHandshakeResponse:
        offered = list(self._mechanisms)
        again = self.done and self._lifetime_ms > 0
        if (self.started or self.done) and not again:
            self.failure = "a second SaslHandshake that is not a re-authentication"
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=offered)
        mechanism = request.body.mechanism
        begin = self._mechanisms.get(mechanism)
        if begin is None or (again and mechanism != self._mechanism):
            enabled = self._mechanism if again else ", ".join(offered)
            self.failure = f"the client requests the SASL mechanism {mechanism}; allowed: {enabled}"
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self.started, self.done = True, False
        self._exchange, self._mechanism, self._rounds = begin(), mechanism, 0
        self.expects_raw_token = request.version == 0
        return SaslHandshakeResponse(mechanisms=offered)

    def answer_raw_token(self, token: bytes, now: int) -> bytes:
        assert self._exchange is not None, "a raw token without an exchange"
        if not self._may_try(now):
            return b""
        answer = self._step(self._exchange, token, now)
        return b"" if answer is None else _LENGTH.pack(len(answer)) + answer

    def _may_try(self, now: int) -> bool:
        """Return whether to check the next token; if not, the connection is closed without a response."""
        if self.principal != ANONYMOUS or self._failures.may_try(self._host, now):
            return True
        self.failure = f"{self._mechanism}: login refused, because too many logins from {self._host} failed recently"
        return False

    def _step(self, exchange: Exchange, token: bytes, now: int) -> bytes | None:
        """Return the token to send. If the exchange fails, set `failure` and the pause, and return None."""
        self._rounds += 1
        try:
            if self._rounds > ROUNDS_MAX:
                raise Refused(f"the exchange did not end after {ROUNDS_MAX} tokens")
            answer = exchange.step(bytes(token))
            if exchange.done:
                self._authenticated(f"User:{exchange.name}", now)
        except Refused as error:
            self.failure = f"{self._mechanism}: {error}"
            self._exchange, self.expects_raw_token = None, False
            self.pause_ms = self._failures.failed(self._host, now)
            return None
        return answer

    def _authenticated(self, principal: str, now: int) -> None:
        if self.principal not in (ANONYMOUS, principal):
            raise Refused(f"{self.principal} cannot re-authenticate as {principal}")
        self.done, self.principal = True, principal
        self._exchange, self.expects_raw_token = None, False
        if self._lifetime_ms:
            self.expires_at = now + self._lifetime_ms
