"""SASL at a listener: which mechanism, its tokens, for how long it counts; and the side that logs in."""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Mapping
from struct import Struct
from typing import Any, Final, Protocol, TypeVar

import trio
from attrs import frozen

from kraft_controller.core.scram import Credential, Mechanism
from replica.core.errors import ErrorCode, KafkaError
from replica.core.sasl_exchange import Exchange, Proof, Refused
from replica.core.sasl_plain import PLAIN, PlainExchange, PlainProof
from replica.core.sasl_scram import ScramExchange, ScramProof
from replica.runtime.requests import ANONYMOUS, ApiKey, Request
from replica.wire.fields import Api
from replica.wire.schemas.cluster_schemas import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from zab.core.failed_logins import FailedLogins

Q = TypeVar("Q")
R = TypeVar("R")

NONCE_BYTES: Final = 24
ROUNDS_MAX: Final = 10
SCRAM: Final[Mapping[str, Mechanism]] = {mechanism.value: mechanism for mechanism in Mechanism}
MECHANISMS: Final = (PLAIN, *SCRAM)
_LENGTH: Final = Struct(">i")

Begin = Callable[[], Exchange]
FindCredential = Callable[[Mechanism, str], Credential | None]


@frozen
class SaslSettings:
    """Of one listener.

    mechanisms      that are spoken there, in the order in which they are offered
    users           passwords by name, for PLAIN
    lifetime_ms     `connections.max.reauth.ms`: after which a client has to prove anew who it is; 0: never
    """

    mechanisms: tuple[str, ...] = (PLAIN,)
    users: Mapping[str, str] | None = None
    lifetime_ms: int = 0

    def __repr__(self) -> str:
        return f"SaslSettings({', '.join(self.mechanisms)})"


def sasl_security(
    settings: SaslSettings, find: FindCredential, secret: bytes, failures: FailedLogins | None = None
) -> SaslListenerSecurity:
    """`find`: the credentials of the store. `secret`: see `ScramExchange`. `failures`: shared by all listeners."""
    users = {name: password.encode() for name, password in (settings.users or {}).items()}

    def begin(name: str) -> Begin:
        if name == PLAIN:
            return lambda: PlainExchange(users)
        mechanism = SCRAM[name]
        return lambda: ScramExchange(mechanism, lambda user: find(mechanism, user), nonce(), secret)

    return SaslListenerSecurity({name: begin(name) for name in settings.mechanisms}, settings.lifetime_ms, failures)


def _now_ms() -> float:
    return trio.current_time() * 1000


def nonce() -> str:
    return base64.b64encode(os.urandom(NONCE_BYTES)).decode()


class SaslListenerSecurity:
    """`mechanisms`: by name, how an exchange begins."""

    keys: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

    def __init__(
        self, mechanisms: Mapping[str, Begin], lifetime_ms: int = 0, failures: FailedLogins | None = None
    ) -> None:
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self._failures = FailedLogins() if failures is None else failures

    def login(self, host: str) -> SaslAuthenticator:
        return SaslAuthenticator(self._mechanisms, self._lifetime_ms, self._failures, host)


class SaslAuthenticator:
    def __init__(self, mechanisms: Mapping[str, Begin], lifetime_ms: int, failures: FailedLogins, host: str) -> None:
        self.started = self.raw = self.done = False
        self.failed: str | None = None
        self.principal = ANONYMOUS
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self._failures = failures
        self._host = host
        self._exchange: Exchange | None = None
        self._chosen = ""
        self._rounds = 0
        self._ends = float("inf")

    @property
    def over(self) -> bool:
        """It was believed, and has to be proved anew before anything else is asked."""
        return self.done and trio.current_time() >= self._ends

    async def answer(self, request: Request[Any]) -> SaslHandshakeResponse | SaslAuthenticateResponse | None:
        if request.api is ApiKey.SASL_HANDSHAKE:
            return self._handshake(request)
        if self._exchange is None:
            self.failed = "SaslAuthenticate out of turn"
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=self.failed)
        if not self._may_try():
            return None
        answer = await self._stepped(self._exchange, request.body.auth_bytes)
        if answer is not None:
            return SaslAuthenticateResponse(
                auth_bytes=answer, session_lifetime_ms=self._lifetime_ms if self.done else 0
            )
        text = "a user of that name and password is not known here"  # which of both is wrong, strangers are not told
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)

    def _handshake(self, request: Request[SaslHandshakeRequest]) -> SaslHandshakeResponse:
        offered = list(self._mechanisms)
        again = self.done and self._lifetime_ms > 0
        if (self.started or self.done) and not again:
            self.failed = "SaslHandshake out of turn"
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=offered)
        wanted = request.body.mechanism
        begin = self._mechanisms.get(wanted)
        if begin is None or (again and wanted != self._chosen):
            self.failed = f"it wants to log in with {wanted}, and {', '.join(offered)} is spoken here"
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self.started, self.done = True, False
        self._exchange, self._chosen, self._rounds = begin(), wanted, 0
        self.raw = request.version == 0  # what follows is no request then
        return SaslHandshakeResponse(mechanisms=offered)

    async def raw_token(self, frame: bytes) -> bytes:
        assert self._exchange is not None
        if not self._may_try():
            return b""
        answer = await self._stepped(self._exchange, frame)
        return b"" if answer is None else _LENGTH.pack(len(answer)) + answer

    def _may_try(self) -> bool:
        """Return whether the next token is checked; if not, the connection ends without an answer."""
        if self.principal != ANONYMOUS or self._failures.may_try(self._host, _now_ms()):
            return True
        self.failed = f"{self._chosen}: not checked, because too many logins from {self._host} failed just now"
        return False

    async def _stepped(self, exchange: Exchange, token: bytes) -> bytes | None:
        """Return what to answer; None, after the pause that a failure costs its address, if the exchange has failed."""
        self._rounds += 1
        try:
            if self._rounds > ROUNDS_MAX:
                raise Refused(f"{self._chosen} does not come to an end")
            answer = exchange.step(bytes(token))
            if exchange.done:
                self._believe(f"User:{exchange.name}")
        except Refused as error:
            self.failed, self._exchange, self.raw = f"{self._chosen}: {error}", None, False
            await trio.sleep(self._failures.failed(self._host, _now_ms()) / 1000)
            return None
        return answer

    def _believe(self, principal: str) -> None:
        if self.principal not in (ANONYMOUS, principal):
            raise Refused(f"it was {self.principal}, and wants to be {principal} now")
        self.done, self.principal = True, principal
        self._exchange, self.raw = None, False
        if self._lifetime_ms:
            self._ends = trio.current_time() + self._lifetime_ms / 1000


# -- the client's side -------------------------------------------------------------------------------------


@frozen(repr=False)
class Identity:
    """Who logs in, and how."""

    mechanism: str
    name: str
    password: str

    def proof(self) -> Proof:
        if self.mechanism == PLAIN:
            return PlainProof(self.name, self.password)
        return ScramProof(SCRAM[self.mechanism], self.name, self.password, nonce())


class Exchanging(Protocol):
    """Sends a request of a version, and returns its response."""

    def __call__(self, api: Api[Q, R], version: int, body: Q) -> Awaitable[R]: ...


async def log_in(identity: Identity, exchange: Exchanging) -> int:
    """At the beginning of a connection, and again before that is over. For how many milliseconds it counts; 0: for as
    long as the connection lasts. `KafkaError` if one side does not believe the other."""
    answered = await exchange(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=identity.mechanism))
    if answered.error_code:
        offered = ", ".join(answered.mechanisms) or "nothing"
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{identity.mechanism} is not offered: {offered} is")
    proof = identity.proof()
    token = proof.first()
    for _ in range(ROUNDS_MAX):
        said = await exchange(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
        if said.error_code:
            why = said.error_message or "it is not believed"
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{identity.mechanism}, {identity.name}: {why}")
        try:
            following = proof.step(bytes(said.auth_bytes))
        except Refused as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{identity.mechanism}: {error}") from None
        if following is None:
            return said.session_lifetime_ms
        token = following
    raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{identity.mechanism} does not come to an end")
